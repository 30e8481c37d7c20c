/**
 * The console log of a machine. QEMU appends to a file as long as the machine runs, and the guest decides how much. A
 * file that grows too long is truncated, and its last part is saved in a second file. console-times.ts has the times.
 */
import fs from 'node:fs/promises'
import { Duplex } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { formatInstant, instantOf, systemClock } from '../../base/instant.ts'
import { LastLines, LineSplitter, matches, showLine, type LineFilter } from '../../base/log-lines.ts'
import { noteSize, readTimes, timeAt, writeTimes, type ConsoleTime } from './console-times.ts'
import { isThere, unlessGone, type MachineFiles } from './machine-files.ts'

const MAX_FILE_BYTES = 8 * 1_048_576
const OLD_FILE_BYTES = 1_048_576
const CHUNK_BYTES = 65_536
const POLL_MS = 200

export interface ConsoleRequest extends LineFilter {
  readonly tail: number
  readonly follow: boolean
}

/** The last lines and, with follow, new ones until the machine is gone. Input is discarded. */
export function consoleStream(files: MachineFiles, request: ConsoleRequest, signal: AbortSignal): Duplex {
  const controller = new AbortController()
  const chunks = readConsole(files, request, AbortSignal.any([signal, controller.signal]))
  const next = async (): Promise<void> => {
    const { value, done: isDone } = await chunks.next()
    stream.push(isDone === true ? null : value)
  }
  const stream = new Duplex({
    allowHalfOpen: false,
    read: () => void next().catch((error: Error) => stream.destroy(error)),
    write: (_chunk, _encoding, callback) => callback(),
    destroy: (error, callback) => {
      controller.abort()
      callback(error)
    },
  })
  return stream
}

async function* readConsole(files: MachineFiles, request: ConsoleRequest, signal: AbortSignal): AsyncGenerator<Buffer> {
  const current = await readEnd(files.console, MAX_FILE_BYTES)
  const old = await readEnd(files.oldConsole, OLD_FILE_BYTES)
  const last = new LastLines(request.tail, MAX_FILE_BYTES + OLD_FILE_BYTES)
  const splitter = new LineSplitter()
  const times = [await readTimes(files.oldConsoleTimes), await readTimes(files.consoleTimes)] as const
  // A line that begins in the old file and ends in the current one gets the time of its end.
  const oldLines = splitter.push(old.bytes)
  addLines(last, oldLines, times[0], old.size - old.bytes.length, request)
  addLines(
    last,
    [...splitter.push(current.bytes), ...splitter.flush()],
    times[1],
    current.size - current.bytes.length,
    request,
  )
  const text = last.all()
  if (text.length > 0) yield text
  if (request.follow) yield* followConsole(files, request, current.size, signal)
}

function addLines(
  last: LastLines,
  lines: readonly Buffer[],
  times: readonly ConsoleTime[],
  start: number,
  filter: LineFilter,
): void {
  let offset = start
  for (const text of lines) {
    // The line was written after the last noted size, so the current time is close enough.
    const at = timeAt(times, offset) ?? systemClock.now()
    offset += text.length
    const line = { stamp: formatInstant(instantOf(at)), text }
    if (matches(line, filter)) last.add(showLine(line, filter))
  }
}

async function* followConsole(
  files: MachineFiles,
  filter: ConsoleRequest,
  from: number,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  // Without a filter, bytes are passed on as they arrive, since a prompt does not end its line.
  const isPlain = filter.search === undefined && filter.timestamps !== true
  const splitter = new LineSplitter()
  let position = from
  while (!signal.aborted && (filter.until === undefined || systemClock.now() < filter.until)) {
    const chunk = await readFrom(files.console, position)
    if (chunk === 'truncated') position = 0
    else if (chunk.length > 0) {
      position += chunk.length
      const stamp = formatInstant(systemClock.now())
      const lines = (isPlain ? [chunk] : splitter.push(chunk)).map((text) => ({ stamp, text }))
      const texts = lines.filter((line) => matches(line, filter)).map((line) => showLine(line, filter))
      if (texts.length > 0) yield Buffer.concat(texts)
    } else {
      if (!(await isThere(files.folder))) return
      await pause(POLL_MS, undefined, { signal }).catch(() => {})
    }
  }
}

/** The last lines, for an error message about a failed boot. */
export async function consoleTail(files: MachineFiles, bytes: number): Promise<string> {
  return (await readEnd(files.console, bytes)).bytes
    .toString('utf8')
    .replaceAll(/[^\x20-\x7e\n]/g, '')
    .trim()
}

/** Notes the size of the console, and truncates it when it is long. */
export async function maintainConsole(files: MachineFiles): Promise<void> {
  const size = (await fs.stat(files.console).catch(unlessGone(undefined)))?.size ?? 0
  await noteSize(files.consoleTimes, size, systemClock.now())
  if (size <= MAX_FILE_BYTES) return
  const { bytes } = await readEnd(files.console, OLD_FILE_BYTES)
  const droppedBytes = size - bytes.length
  const times = await readTimes(files.consoleTimes)
  await fs.writeFile(files.oldConsole, bytes, { mode: 0o600 })
  await writeTimes(
    files.oldConsoleTimes,
    times.flatMap(([end, at]): ConsoleTime[] => (end > droppedBytes ? [[end - droppedBytes, at]] : [])),
  )
  await fs.truncate(files.console, 0)
  await writeTimes(files.consoleTimes, [])
}

async function readEnd(file: string, maxBytes: number): Promise<{ bytes: Buffer; size: number }> {
  const handle = await fs.open(file).catch(unlessGone(undefined))
  if (handle === undefined) return { bytes: Buffer.alloc(0), size: 0 }
  try {
    const { size } = await handle.stat()
    const length = Math.min(size, maxBytes)
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, size - length)
    return { bytes: buffer.subarray(0, bytesRead), size }
  } finally {
    await handle.close()
  }
}

async function readFrom(file: string, position: number): Promise<Buffer | 'truncated'> {
  const handle = await fs.open(file).catch(unlessGone(undefined))
  if (handle === undefined) return Buffer.alloc(0)
  try {
    if ((await handle.stat()).size < position) return 'truncated'
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(CHUNK_BYTES), 0, CHUNK_BYTES, position)
    return buffer.subarray(0, bytesRead)
  } finally {
    await handle.close()
  }
}
