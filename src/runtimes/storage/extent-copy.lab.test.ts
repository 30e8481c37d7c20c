/** Copies of volume files on real file systems: what is read, what is written, and what ends a copy. */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startSmallDisk } from '../../../test/lab/small-disk.ts'
import { whyNoStorageLab } from '../../../test/lab/storage-lab.ts'
import { copyExtents } from './extent-copy.ts'
import { needs } from '../../../test/needs.ts'

needs('nfs')

const GB = 2 ** 30
const MB = 2 ** 20
const { signal } = new AbortController()

let folder: string
beforeEach(() => (folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-copy-'))))
afterEach(() => fs.rmSync(folder, { recursive: true }))

describe('a copy of a volume file', () => {
  it('reads only the data of a file whose blocks are all reserved (issue 31, D)', async () => {
    const [from, to] = [path.join(folder, 'from'), path.join(folder, 'to')]
    execFileSync('fallocate', ['-l', String(8 * GB), from])
    const pieces = [0, 5 * MB + 100, 3 * GB + 7, 8 * GB - 10].map((at) => ({ at, bytes: randomBytes(10) }))
    writePieces(from, pieces)
    const before = readBytes()
    await copyExtents(from, to, { signal })
    expect(readBytes() - before).toBeLessThan(10 * MB)
    expect(fs.statSync(to)).toMatchObject({ size: 8 * GB })
    expect(fs.statSync(to).blocks * 512).toBeLessThan(10 * MB)
    for (const { at, bytes } of pieces) expect(readAt(to, at, 10)).toEqual(bytes)
    expect(readAt(to, 100, 5 * MB).equals(Buffer.alloc(5 * MB))).toBe(true)
  })

  it('is the same byte for byte, with holes, zeros and many small extents', async () => {
    const [from, to] = [path.join(folder, 'from'), path.join(folder, 'to')]
    fs.writeFileSync(from, Buffer.alloc(20 * MB))
    for (let at = 0; at < 200; at += 1) writePieces(from, [{ at: at * 137_911, bytes: randomBytes(at * 7) }])
    fs.truncateSync(from, 90 * MB + 13)
    await copyExtents(from, to, { signal })
    expect(fs.readFileSync(to).equals(fs.readFileSync(from))).toBe(true)
  })

  it('copies a file whose file system does not list extents', async () => {
    const other = fs.mkdtempSync('/dev/shm/berth-copy-')
    try {
      const [from, to] = [path.join(other, 'from'), path.join(other, 'to')]
      fs.writeFileSync(from, randomBytes(6 * MB + 1))
      await copyExtents(from, to, { signal })
      expect(fs.readFileSync(to).equals(fs.readFileSync(from))).toBe(true)
    } finally {
      fs.rmSync(other, { recursive: true })
    }
  })

  it('ends when it is cancelled', async () => {
    const [from, to] = [path.join(folder, 'from'), path.join(folder, 'to')]
    fs.writeFileSync(from, randomBytes(64 * MB))
    const control = new AbortController()
    const copy = copyExtents(from, to, { signal: control.signal })
    control.abort()
    await expect(copy).rejects.toThrow('aborted')
  })
})

const reason = whyNoStorageLab()

describe.skipIf(reason !== null)(`a copy on a disk that hangs${reason === null ? '' : ` (${reason})`}`, () => {
  it('ends after a time without progress (issue 31, D)', async () => {
    const disk = startSmallDisk(1)
    const from = path.join(folder, 'from')
    fs.writeFileSync(from, randomBytes(64 * MB))
    const to = path.join(disk.folder, 'to')
    execFileSync('fsfreeze', ['-f', disk.folder])
    try {
      await expect(copyExtents(from, to, { signal, stallMs: 300 })).rejects.toThrow('no progress')
    } finally {
      execFileSync('fsfreeze', ['-u', disk.folder])
      await disk.close()
    }
  })
})

function writePieces(file: string, pieces: ReadonlyArray<{ at: number; bytes: Buffer }>): void {
  const handle = fs.openSync(file, 'r+')
  for (const { at, bytes } of pieces) fs.writeSync(handle, bytes, 0, bytes.length, at)
  fs.closeSync(handle)
}

function readAt(file: string, at: number, length: number): Buffer {
  const handle = fs.openSync(file, 'r')
  const buffer = Buffer.alloc(length)
  fs.readSync(handle, buffer, 0, length, at)
  fs.closeSync(handle)
  return buffer
}

/** The bytes that this process has read. */
function readBytes(): number {
  return Number(/^rchar: (\d+)/m.exec(fs.readFileSync('/proc/self/io', 'utf8'))?.[1])
}
