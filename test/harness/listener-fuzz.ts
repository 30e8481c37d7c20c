/**
 * Malformed bytes for one listener, from valid ones that are mutated, cut and sent in pieces; the same seed gives the same
 * bytes. A case passes if nothing escapes to the process: no exception, no rejection, and no error that `contained` had to
 * stop, which would be a defect too.
 */
import { once } from 'node:events'
import { randomInt } from 'node:crypto'
import net, { type AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { randomFrom, type Random } from './chat-fuzz.ts'

const CASES = Number.parseInt(process.env['BERTH_TEST_FUZZ_LISTENERS'] ?? '40', 10)
const SEED = Number.parseInt(process.env['BERTH_TEST_FUZZ_SEED'] ?? String(randomInt(2 ** 31)), 10)
const AT_ONCE = 8
const CASE_MS = 60_000
/** What a mute or slow end is waited for. */
const QUIET_MS = 150
const MAX_SHOWN = 16
const MAX_SHOWN_BYTES = 400

export interface Fuzzed {
  /** The bytes of the next case. */
  next(): Buffer
  readonly random: Random
  /** Makes all attempts. One that fails is fine; the answer is what escaped, and who did not end. */
  run(attempt: () => Promise<unknown>): Promise<string[]>
  /** Writes bytes in pieces and then closes, resets or leaves the stream. Resolves when that is done. */
  feed(stream: Duplex, bytes?: Buffer): Promise<void>
}

/** `dialogs`: what would be valid. */
export function fuzzOf(name: string, dialogs: ReadonlyArray<string | Buffer>): Fuzzed {
  const random = randomFrom(SEED + name.length)
  const sent: string[] = []
  const valid = dialogs.map((one) => Buffer.from(one))
  const next = (): Buffer => {
    const bytes = mutate(random, valid)
    sent.push(bytes.subarray(0, MAX_SHOWN_BYTES).toString('latin1'))
    if (sent.length > MAX_SHOWN) sent.shift()
    return bytes
  }
  const run: Fuzzed['run'] = async (attempt) => {
    const watch = watchProcess()
    try {
      for (let done = 0; done < CASES; done += AT_ONCE) {
        const batch = Array.from({ length: Math.min(AT_ONCE, CASES - done) }, () => settled(attempt()))
        if ((await Promise.all(batch)).includes('late')) watch.faults.push('an attempt did not end')
        await new Promise((resolve) => setImmediate(resolve))
        if (watch.faults.length === 0) continue
        return [`${name}, seed ${SEED}`, ...watch.faults, `the last bytes: ${JSON.stringify(sent)}`]
      }
      return []
    } finally {
      watch.stop()
    }
  }
  return { next, random, run, feed: (stream, bytes = next()) => feed(random, stream, bytes) }
}

/** A server on a free port, or a unix socket, whose every connection gets fuzzed bytes. */
export async function fuzzingServer(
  fuzzed: Fuzzed,
  options: { readonly path?: string; readonly greets?: boolean } = {},
): Promise<{ port: number; close(): Promise<void> }> {
  const sockets = new Set<net.Socket>()
  const server = net.createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    if (options.greets === true) void fuzzed.feed(socket)
    socket.on('data', () => void fuzzed.feed(socket))
  })
  server.listen(options.path === undefined ? { port: 0, host: '127.0.0.1' } : { path: options.path })
  await once(server, 'listening')
  return {
    port: options.path === undefined ? (server.address() as AddressInfo).port : 0,
    close: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Sends fuzzed bytes to a server and reads until it closes, or says no more. */
export async function sendFuzzed(fuzzed: Fuzzed, port: number, before = ''): Promise<void> {
  const socket = net.connect({ port, host: '127.0.0.1' })
  socket.on('error', () => {})
  socket.resume()
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  if (before !== '') socket.write(before)
  await fuzzed.feed(socket)
  await atMost(QUIET_MS, closed)
  socket.destroy()
}

/** Waits for the work, but not longer. Malformed bytes may leave it waiting, and nothing says so. */
export async function atMost(ms: number, work: Promise<unknown>): Promise<void> {
  await Promise.race([work.catch(() => {}), pause(ms)])
}

async function settled(attempt: Promise<unknown>): Promise<'done' | 'late'> {
  const done = attempt.then(
    () => 'done' as const,
    () => 'done' as const,
  )
  return Promise.race([done, pause(CASE_MS).then(() => 'late' as const)])
}

async function feed(random: Random, stream: Duplex, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length && stream.writable;) {
    const size = random() < 0.3 ? 1 + below(random, 8) : 1 + below(random, bytes.length)
    stream.write(bytes.subarray(at, at + size))
    at += size
    if (random() < 0.5) await new Promise((resolve) => setImmediate(resolve))
  }
  const end = random()
  if (end < 0.5) stream.end()
  else if (end < 0.8) stream.destroy()
  else await pause(QUIET_MS)
}

function watchProcess(): { readonly faults: string[]; stop(): void } {
  const faults: string[] = []
  const take = (what: string) => (error: unknown) =>
    void faults.push(`${what}: ${error instanceof Error ? error.stack : String(error)}`)
  const rejected = take('unhandled rejection')
  const warned = (warning: Error & { code?: string; detail?: string }): void => {
    if (warning.code === 'BERTH_CONTAINED') faults.push(`contained: ${warning.detail ?? ''}`)
  }
  const others = process.listeners('unhandledRejection')
  process.removeAllListeners('unhandledRejection')
  process.on('unhandledRejection', rejected).on('warning', warned)
  process.setUncaughtExceptionCaptureCallback(take('uncaught exception'))
  return {
    faults,
    stop: () => {
      process.setUncaughtExceptionCaptureCallback(null)
      process.off('unhandledRejection', rejected).off('warning', warned)
      for (const one of others) process.on('unhandledRejection', one)
    },
  }
}

const below = (random: Random, end: number): number => Math.floor(random() * end)
const pick = <T>(random: Random, all: readonly T[]): T => all[below(random, all.length)] as T

const oddities = [
  '\0', '\r', '\n', '\r\n\r\n', ' ', ':', '\xff\xfe', '-1', '0', '099', '000', '101', '1e999', '99999999999999999999', '{', '}',
  '[', ']', '"', '\\u', 'null', 'true', 'Content-Length: -5\r\n', 'Content-Length: 5\r\n', 'Transfer-Encoding: chunked\r\n',
  'Connection: upgrade\r\nUpgrade: x\r\n', 'HTTP/1.1 100 a\r\n\r\n', 'HTTP/1.1 101 a\r\n\r\n', '__proto__', '5', '[]', '{}',
].map((text) => Buffer.from(text, 'latin1')) // prettier-ignore

function mutate(random: Random, valid: readonly Buffer[]): Buffer {
  let bytes = pick(random, valid)
  if (random() < 0.05) return bytes
  const changes = 1 + below(random, 4)
  for (let n = 0; n < changes; n += 1) bytes = changed(random, bytes, pick(random, valid))
  return bytes
}

function changed(random: Random, bytes: Buffer, other: Buffer): Buffer {
  const at = below(random, bytes.length + 1)
  const to = Math.min(bytes.length, at + below(random, 24))
  const [head, tail] = [bytes.subarray(0, at), bytes.subarray(at)]
  switch (below(random, 8)) {
    case 0:
      return head
    case 1:
      return Buffer.concat([head, bytes.subarray(to)])
    case 2:
      return Buffer.concat([head, pick(random, oddities), tail])
    case 3:
      return Buffer.concat([head, pick(random, oddities), bytes.subarray(to)])
    case 4:
      return Buffer.concat([head, other.subarray(below(random, other.length + 1))])
    case 5:
      return Buffer.concat([head, bytes.subarray(at, to), bytes.subarray(at, to), tail])
    case 6:
      return Buffer.concat([
        head,
        Buffer.from(Array.from({ length: 1 + below(random, 40) }, () => below(random, 256))),
        tail,
      ])
    default: {
      const flipped = Buffer.from(bytes)
      for (let n = 0; n < 3 && flipped.length > 0; n += 1) flipped[below(random, flipped.length)] = below(random, 256)
      return flipped
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
