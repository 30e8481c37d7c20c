/**
 * The weights of a model: files that a host downloads once and mounts read-only into every machine that uses them. Each
 * has a digest, so a host never mounts a file that is not the expected one. Whoever knows a digest may still lack the
 * right to the file: machines of one account share a download, and another account downloads from its own source.
 */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { mountPath } from './mount-path.ts'

/** Below the mount path. */
const filePath = z
  .string()
  .max(400)
  .regex(/^[A-Za-z0-9][\w.@+-]*(\/[A-Za-z0-9][\w.@+-]*)*$/, 'Must be a relative path of letters, digits and . _ - @ +')

const sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'Must be 64 lowercase hex digits')

const bucketName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'Must be the name of a bucket')
  .refine((name) => !name.includes('..'), 'Must be the name of a bucket')

const weightsSource = z.discriminatedUnion('kind', [
  /** A file from the model store of the server. */
  z.strictObject({ kind: z.literal('server'), model: z.string().min(1).max(200), file: z.string().min(1).max(200) }),
  z.strictObject({ kind: z.literal('https'), url: z.url({ protocol: /^https$/ }).max(2_048) }),
  /** A file from the object store that the operator configured. */
  z.strictObject({ kind: z.literal('s3'), bucket: bucketName, object: z.string().min(1).max(1_024) }),
])
export type WeightsSource = z.output<typeof weightsSource>

const weightsFile = z.strictObject({
  path: filePath.describe('Relative to the mount path'),
  bytes: z.int().min(0),
  sha256,
  source: weightsSource,
})
export type WeightsFile = z.output<typeof weightsFile>

/** `domain/recipe.ts` rejects a path that is given twice. */
const weightsFiles = z.array(weightsFile).min(1).max(limits.weightsFiles)

export const weights = z.strictObject({
  mountPath: mountPath.describe('Where they are mounted, read-only'),
  files: weightsFiles,
})
export type Weights = z.output<typeof weights>

/** The weights in a host's desired state. The host asks its server where each file is. */
export const hostWeights = z.object({
  mountPath,
  /** Stands for the account: only its own machines share a download. Absent: one machine alone. */
  owner: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,100}$/)
    .optional(),
  files: z
    .array(z.object({ path: filePath, bytes: z.int().min(0), sha256 }))
    .min(1)
    .max(limits.weightsFiles),
})
export type HostWeights = z.output<typeof hostWeights>
