/**
 * Copies the file of a volume. The copy shares blocks if the file system can (reflink); otherwise only extents with
 * data are read. `cp` would read the whole size of a file whose blocks are reserved, as those of most volumes are: nine
 * minutes for 512 GB with 36 kB of data. The total time has no limit, only the time without progress.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:fs'
import fs, { type FileHandle } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { within } from '../../base/within.ts'
import { findProgram, programEnvironment } from '../run-program.ts'

const CHUNK_BYTES = 4 * 1_048_576
/** Written data is flushed in steps, so that a disk that hangs shows as a lack of progress. */
const FLUSH_BYTES = 256 * 1_048_576
const STALL_MS = 300_000
/** The unit of offsets. No file system has smaller blocks. */
const BLOCK_BYTES = 512
/** ` 3:   9255..   32767:   3709991..   3733503:  23513:   3709985: unwritten,eof`: the second range is on the disk. */
const EXTENT_LINE = /^\s*\d+:\s*(\d+)\.\.\s*(\d+):\s*\d+\.\.\s*\d+:\s*\d+:(?:\s*\d+:)?\s*(\S*)\s*$/

export interface CopyOptions {
  readonly signal: AbortSignal
  readonly stallMs?: number
}

/** `to` must not exist. A failed copy leaves a partial file. */
export async function copyExtents(from: string, to: string, options: CopyOptions): Promise<void> {
  const { signal, stallMs = STALL_MS } = options
  const inTime: WithTimeout = (work) =>
    within(stallMs, work, `The copy made no progress for ${stallMs / 1_000} seconds. Check the disk of the host.`)
  if (await inTime(shareBlocks(from, to))) return
  const extents = await inTime(listExtents(from, signal))
  const source = await inTime(fs.open(from, 'r'))
  const target = await inTime(fs.open(to, 'wx', 0o600))
  try {
    const { size } = await inTime(source.stat())
    await inTime(target.truncate(size))
    await copyData({ source, target, size, extents: extents ?? [{ start: 0, end: size }], signal, inTime })
    await inTime(target.sync())
  } finally {
    // Closing waits for the last read or write, which never ends on a disk that hangs. The data was flushed before.
    for (const handle of [source, target]) void handle.close().catch(() => {})
  }
}

type WithTimeout = <T>(step: Promise<T>) => Promise<T>

/** Any error of this attempt also shows in the copy by extents. */
async function shareBlocks(from: string, to: string): Promise<boolean> {
  return fs.copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE_FORCE).then(
    () => true,
    () => false,
  )
}

interface Extent {
  readonly start: number
  readonly end: number
}

interface Copy {
  readonly source: FileHandle
  readonly target: FileHandle
  readonly size: number
  readonly extents: readonly Extent[]
  readonly signal: AbortSignal
  readonly inTime: WithTimeout
}

async function copyData({ source, target, size, extents, signal, inTime }: Copy): Promise<void> {
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
  const zeros = Buffer.alloc(CHUNK_BYTES)
  let unflushedBytes = 0
  for (const extent of extents) {
    const end = Math.min(extent.end, size)
    for (let position = extent.start; position < end;) {
      signal.throwIfAborted()
      const length = Math.min(CHUNK_BYTES, end - position)
      const { bytesRead } = await inTime(source.read(buffer, 0, length, position))
      if (bytesRead === 0) throw new Error(`The file ended at byte ${position} of ${size} while it was copied`)
      const chunk = buffer.subarray(0, bytesRead)
      if (!chunk.equals(zeros.subarray(0, bytesRead))) {
        for (let written = 0; written < bytesRead;) {
          const unwritten = chunk.subarray(written)
          written += (await inTime(target.write(unwritten, 0, unwritten.length, position + written))).bytesWritten
        }
        unflushedBytes += bytesRead
      }
      position += bytesRead
      if (unflushedBytes < FLUSH_BYTES) continue
      await inTime(target.datasync())
      unflushedBytes = 0
    }
  }
}

/** Lists extents with data, in order. undefined: the file system does not report them, so any byte may be data. */
async function listExtents(file: string, signal: AbortSignal): Promise<Extent[] | undefined> {
  // -s writes data to the disk first, since unwritten data has no extent.
  const program = spawn(findProgram('filefrag'), ['-s', '-v', `-b${BLOCK_BYTES}`, file], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: programEnvironment,
    signal,
  })
  const [[code], extents] = await Promise.all([once(program, 'close'), readExtents(program.stdout)])
  return code === 0 ? extents : undefined
}

async function readExtents(output: Readable): Promise<Extent[] | undefined> {
  const extents: Extent[] = []
  let isUnderstood = true
  for await (const line of createInterface({ input: output })) {
    if (!/^\s*\d+:/.test(line)) continue
    const [, first, last, flags = ''] = EXTENT_LINE.exec(line) ?? []
    // A line that is skipped would be lost data.
    if (first === undefined || last === undefined) isUnderstood = false
    else if (!flags.split(',').includes('unwritten'))
      extents.push({ start: Number(first) * BLOCK_BYTES, end: (Number(last) + 1) * BLOCK_BYTES })
  }
  return isUnderstood ? extents : undefined
}
