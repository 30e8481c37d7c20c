/** The path at which a volume or a model's weights are mounted in a machine. */
import { z } from 'zod'

/** Folders of the system, and everything in them. */
const SYSTEM_PATH = /^\/(dev|proc|sys|run)(\/|$)/

export function hasNoDots(path: string): boolean {
  return !path.split('/').some((part) => part === '..' || part === '.')
}

/** Part of a command line and of a mount table, so the characters are few. */
export const mountPath = z
  .string()
  .max(1_000)
  .regex(/^(\/[\w.@+-]+)+$/, 'Must be an absolute path of letters, digits and . _ - @ +')
  .refine(hasNoDots, 'Must not contain . or ..')
  .refine((path) => !SYSTEM_PATH.test(path), 'Must not be in /dev, /proc, /run or /sys')
