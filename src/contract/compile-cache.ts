/**
 * The folder in which an engine keeps what it compiles. Its host gives the same folder to the next machine of the account
 * with the same image, GPUs and model, because compiling is a large part of a start. What is compiled is code, so accounts
 * never share it.
 */
import { z } from 'zod'
import { limits } from '../base/limits.ts'

export const compileCache = z.object({
  model: z.string().min(1).max(1_000).describe('Another model gets another folder'),
  variables: z
    .array(z.string().regex(/^[A-Z][A-Z0-9_]{0,99}$/))
    .min(1)
    .max(limits.compileCacheVariables)
    .describe('Environment variables that tell the engine where its folders are'),
})
export type CompileCache = z.output<typeof compileCache>

/** The compile cache in a host's desired state. */
export const hostCompileCache = compileCache.extend({
  /** Stands for the account. Absent: the host provides no folder. */
  owner: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,100}$/)
    .optional(),
})
