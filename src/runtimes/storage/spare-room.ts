/**
 * A reserve of disk space. Client lists are stored on the same disk as the volumes, so on a full disk a former tenant
 * could not be locked out. A small file reserves a few megabytes that are freed for such a write.
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import { runCommand } from './command.ts'

const SPARE_BYTES = 8 * 1_048_576

export class SpareRoom {
  readonly #file: string

  constructor(folder: string) {
    this.#file = path.join(folder, 'spare')
  }

  /** Restores the reserve. Throws when the disk is full. */
  async refill(): Promise<void> {
    const stats = await fs.stat(this.#file).catch(() => undefined)
    if (stats !== undefined && stats.blocks * 512 >= SPARE_BYTES) return
    await runCommand('fallocate', ['-l', String(SPARE_BYTES), this.#file])
  }

  /** Runs `write` again with the reserve if the disk is full, so it must be safe to repeat. */
  async use<T>(write: () => Promise<T>): Promise<T> {
    try {
      return await write()
    } catch (error) {
      if (!isDiskFull(error)) throw error
      await fs.rm(this.#file, { force: true })
      return write()
    }
  }
}

/** Recognizes the error by its code, or by the output of the failed program. */
export function isDiskFull(error: unknown): boolean {
  for (let one = error; one instanceof Error; one = one.cause) {
    if ('code' in one && (one.code === 'ENOSPC' || one.code === 'EDQUOT')) return true
    if (/No space left on device|Disk quota exceeded/.test(one.message)) return true
  }
  return false
}
