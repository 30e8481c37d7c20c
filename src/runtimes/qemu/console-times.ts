/**
 * The times of the lines in a console log. QEMU appends bytes without times, so we check the size of the file at intervals
 * and note each growth: a byte was written before the first note whose size includes it. The times are as precise as the
 * interval.
 */
import fs from 'node:fs/promises'
import { unlessGone } from './machine-files.ts'

/** A size of the console file, and when it was first seen: `[bytes, milliseconds]`. */
export type ConsoleTime = readonly [size: number, atMs: number]

/** A console that grows slowly for months collects many notes; above this number every other one is dropped. */
const MAX_TIMES = 20_000
const LAST_BYTES = 64

export async function readTimes(file: string): Promise<ConsoleTime[]> {
  const text = await fs.readFile(file, 'utf8').catch(unlessGone(''))
  return text.split('\n').flatMap((line) => {
    const [size, at] = line.split(' ').map(Number)
    return size !== undefined && at !== undefined && Number.isFinite(size) && Number.isFinite(at) ? [[size, at]] : []
  })
}

export async function writeTimes(file: string, times: readonly ConsoleTime[]): Promise<void> {
  const notes = times.length <= MAX_TIMES ? times : times.filter((_, n) => n % 2 === 0)
  await fs.writeFile(`${file}.new`, notes.map(([size, at]) => `${size} ${at}\n`).join(''), { mode: 0o600 })
  await fs.rename(`${file}.new`, file)
}

/** Notes the size if it has changed since the last note. */
export async function noteSize(file: string, size: number, atMs: number): Promise<void> {
  const last = await lastSize(file)
  if (size === last || size === 0) return
  await fs.appendFile(file, `${size} ${atMs}\n`, { mode: 0o600 })
  const { size: bytes } = await fs.stat(file)
  if (bytes > MAX_TIMES * 32) await writeTimes(file, await readTimes(file))
}

async function lastSize(file: string): Promise<number> {
  const handle = await fs.open(file).catch(unlessGone(undefined))
  if (handle === undefined) return 0
  try {
    const { size } = await handle.stat()
    const length = Math.min(size, LAST_BYTES)
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, size - length)
    const line = buffer.toString('utf8', 0, bytesRead).trimEnd().split('\n').at(-1) ?? ''
    return Number(line.split(' ')[0]) || 0
  } finally {
    await handle.close()
  }
}

/** The time of the byte at an offset. undefined: it was written after the last note. */
export function timeAt(times: readonly ConsoleTime[], offset: number): number | undefined {
  let [low, high] = [0, times.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((times[middle]?.[0] ?? 0) > offset) high = middle
    else low = middle + 1
  }
  return times[low]?.[1]
}
