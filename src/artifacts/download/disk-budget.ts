/**
 * Limits a folder of downloads to its budget and to the free disk space. Both are measured on every reservation, since
 * others write to the same disk; bytes reserved by running downloads count as written.
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import { fail, type Failure } from '../../contract/result.ts'

/** This much stays free for the rest of the machine, above all the database. */
const MARGIN_BYTES = 64 * 1_048_576
/** A download of unknown size reserves this much at a time. */
const STEP_BYTES = 8 * 1_048_576

export interface Room {
  /** Reserves this many bytes; a failure contains the numbers. */
  need(bytes: number): Promise<Failure | undefined>
  /** Call before each write. */
  take(bytes: number): Promise<Failure | undefined>
  /** Releases unused bytes. */
  close(): void
}

/** A room without a budget, for files that are small, and for a pod, which has its own disk. */
export const anyRoom: Room = { need: async () => undefined, take: async () => undefined, close: () => {} }

export interface DiskBudget {
  open(): Room
  usedBytes(): Promise<number>
  freeBytes(): Promise<number>
}

export function makeDiskBudget(options: {
  readonly dir: string
  readonly limitBytes: number
  /** Free disk space; from the system by default. */
  readonly freeBytes?: () => Promise<number>
}): DiskBudget {
  const { dir, limitBytes } = options
  const freeBytes = options.freeBytes ?? (() => askFreeBytes(dir))
  let promised = 0

  const promise = async (bytes: number): Promise<Failure | undefined> => {
    const [usedBytes, free] = await Promise.all([measure(dir), freeBytes()])
    if (usedBytes + promised + bytes > limitBytes) return overLimit(bytes, limitBytes, usedBytes + promised)
    if (promised + bytes + MARGIN_BYTES > free) return diskFull(bytes, free - promised)
    promised += bytes
    return undefined
  }

  const open = (): Room => {
    let reserved = 0
    const need = async (bytes: number): Promise<Failure | undefined> => {
      const extra = bytes - reserved
      if (extra <= 0) return undefined
      const failure = await promise(extra)
      if (failure === undefined) reserved += extra
      return failure
    }
    return {
      need,
      take: async (bytes) => {
        if (reserved < bytes && (await need(Math.max(bytes, STEP_BYTES))) !== undefined) {
          const refused = await need(bytes)
          if (refused !== undefined) return refused
        }
        reserved -= bytes
        promised -= bytes
        return undefined
      },
      close: () => {
        promised -= reserved
        reserved = 0
      },
    }
  }
  return { open, usedBytes: () => measure(dir), freeBytes }
}

/** The size of a folder in bytes; 0 if it does not exist. */
export async function measure(dir: string): Promise<number> {
  let sum = 0
  for (const entry of await fs.readdir(dir, { withFileTypes: true, recursive: true }).catch(unlessGone([]))) {
    if (!entry.isFile()) continue
    // A file may be deleted in between.
    sum += await fs.stat(path.join(entry.parentPath, entry.name)).then((stats) => stats.size, unlessGone(0))
  }
  return sum
}

/** Makes a handler for `catch` that returns `instead` for a missing file and rethrows everything else. */
export function unlessGone<T>(instead: T): (error: unknown) => T {
  return (error) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return instead
    throw error
  }
}

async function askFreeBytes(dir: string): Promise<number> {
  const { bavail, bsize } = await fs.statfs(dir)
  return bavail * bsize
}

function overLimit(bytes: number, limitBytes: number, usedBytes: number): Failure {
  return fail('model_store_full', { bytes, usedBytes, limitBytes })
}

function diskFull(bytes: number, freeBytes: number): Failure {
  return fail('disk_full', { bytes, freeBytes: Math.max(freeBytes, 0), reservedBytes: MARGIN_BYTES })
}
