/**
 * The console log of a machine. QEMU appends to a file as long as the machine runs, and the guest decides how much: a
 * long file is truncated and its last part kept next to it.
 */
import fs from 'node:fs/promises'
import { Duplex } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { isThere, unlessGone, type MachineFiles } from './machine-files.ts'

const FILE_BYTES = 8 * 1_048_576
const KEPT_BYTES = 1_048_576
const CHUNK_BYTES = 65_536
const POLL_MS = 200

/** The last lines and, with follow, new ones until the machine is gone. Input is discarded. */
export function consoleStream(
  files: MachineFiles,
  wanted: { readonly tail: number; readonly follow: boolean },
  signal: AbortSignal,
): Duplex {
  const ended = new AbortController()
  const chunks = readConsole(files, wanted, AbortSignal.any([signal, ended.signal]))
  const next = async (): Promise<void> => {
    const { value, done } = await chunks.next()
    stream.push(done === true ? null : value)
  }
  const stream = new Duplex({
    allowHalfOpen: false,
    read: () => void next().catch((error: Error) => stream.destroy(error)),
    write: (_chunk, _encoding, done) => done(),
    destroy: (error, done) => {
      ended.abort()
      done(error)
    },
  })
  return stream
}

async function* readConsole(
  files: MachineFiles,
  { tail, follow }: { readonly tail: number; readonly follow: boolean },
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const current = await readEnd(files.console, FILE_BYTES)
  const old = await readEnd(files.oldConsole, KEPT_BYTES)
  const last = lastLines(Buffer.concat([old.bytes, current.bytes]), tail)
  if (last.length > 0) yield last
  let position = current.size
  while (follow && !signal.aborted) {
    const chunk = await readFrom(files.console, position)
    if (chunk === 'cut') position = 0
    else if (chunk.length > 0) {
      position += chunk.length
      yield chunk
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

export async function cutConsole(files: MachineFiles): Promise<void> {
  const size = (await fs.stat(files.console).catch(unlessGone(undefined)))?.size ?? 0
  if (size <= FILE_BYTES) return
  await fs.writeFile(files.oldConsole, (await readEnd(files.console, KEPT_BYTES)).bytes, { mode: 0o600 })
  await fs.truncate(files.console, 0)
}

function lastLines(text: Buffer, lines: number): Buffer {
  let from = text.length
  for (let found = 0; found < lines; found += 1) {
    // The preceding line break belongs to the previous line.
    const before = from < 2 ? -1 : text.lastIndexOf(0x0a, from - 2)
    if (before < 0) return text
    from = before + 1
  }
  return text.subarray(from)
}

async function readEnd(file: string, most: number): Promise<{ bytes: Buffer; size: number }> {
  const handle = await fs.open(file).catch(unlessGone(undefined))
  if (handle === undefined) return { bytes: Buffer.alloc(0), size: 0 }
  try {
    const { size } = await handle.stat()
    const length = Math.min(size, most)
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, size - length)
    return { bytes: buffer.subarray(0, bytesRead), size }
  } finally {
    await handle.close()
  }
}

async function readFrom(file: string, position: number): Promise<Buffer | 'cut'> {
  const handle = await fs.open(file).catch(unlessGone(undefined))
  if (handle === undefined) return Buffer.alloc(0)
  try {
    if ((await handle.stat()).size < position) return 'cut'
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(CHUNK_BYTES), 0, CHUNK_BYTES, position)
    return buffer.subarray(0, bytesRead)
  } finally {
    await handle.close()
  }
}
