/** A disk of a few gigabytes in a sparse file, mounted at a folder, which a test can really fill. Needs root. */
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { unmount } from '../harness/leftover.ts'

export interface SmallDisk {
  readonly folder: string
  /** Fills all but this many bytes. */
  fill(leftBytes: number): void
  /** Frees the space `fill` took. */
  empty(): void
  close(): Promise<void>
}

const MARGIN_BYTES = 2 ** 20
const block = Buffer.alloc(4_096, 'x')
const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' }

export function startSmallDisk(sizeGb: number): SmallDisk {
  const base = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-disk-'))
  const image = path.join(base, 'disk.img')
  const folder = path.join(base, 'disk')
  fs.mkdirSync(folder)
  fs.closeSync(fs.openSync(image, 'w'))
  fs.truncateSync(image, sizeGb * 2 ** 30)
  // No blocks reserved for root: the file server is root, and would not see that the disk is full.
  execFileSync('mke2fs', ['-q', '-t', 'ext4', '-m', '0', image], { env })
  execFileSync('mount', ['-o', 'loop', image, folder], { env })
  const filler = path.join(folder, 'filler')
  return {
    folder,
    fill(leftBytes) {
      fs.rmSync(filler, { force: true })
      const freeBytes = (): number => {
        const { bavail, bsize } = fs.statfsSync(folder)
        return bavail * bsize
      }
      // Writes the rest, because the file's own metadata blocks cannot be computed in advance.
      execFileSync('fallocate', ['-l', String(freeBytes() - leftBytes - MARGIN_BYTES), filler], { env })
      const handle = fs.openSync(filler, 'a')
      try {
        while (freeBytes() > leftBytes) fs.writeSync(handle, block)
      } catch (error) {
        if (!String(error).includes('ENOSPC')) throw error
      } finally {
        fs.closeSync(handle)
      }
    },
    empty: () => fs.rmSync(filler, { force: true }),
    async close() {
      await unmount(folder)
      fs.rmSync(base, { recursive: true })
    },
  }
}

/** Writes until the disk is full; returns the number of bytes. */
export function fillFile(file: string): number {
  const handle = fs.openSync(file, 'w')
  const chunk = Buffer.alloc(8 * 1_048_576)
  let written = 0
  for (let size = chunk.length; size >= 1;) {
    try {
      written += fs.writeSync(handle, chunk, 0, size)
    } catch (error) {
      if (!String(error).includes('ENOSPC')) throw error
      size = Math.floor(size / 2)
    }
  }
  fs.closeSync(handle)
  return written
}
