/** Against a real HTTP server that breaks off, stalls, lies and redirects. */
import { createHash, randomBytes } from 'node:crypto'
import fs from 'node:fs'
import type http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { startReceiver, type Received, type Receiver } from '../../../test/harness/receiver.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { anyRoom, makeDiskBudget } from './disk-budget.ts'
import { makeDownloader, type Downloader, type DownloaderOptions } from './downloader.ts'
import type { FileRequest } from './request.ts'

const body = randomBytes(1_000_000)
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
const right = { algorithm: 'sha256', hex: sha256(body) } as const
const wrong = { algorithm: 'sha256', hex: '0'.repeat(64) } as const

let folder: string
let target: string
let server: Receiver
let downloaders: Downloader[]
beforeEach(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-downloads-'))
  target = path.join(folder, 'file')
  server = await startReceiver()
  downloaders = []
})
afterEach(async () => {
  await Promise.all(downloaders.map((downloader) => downloader.close()))
  await server.close()
  fs.rmSync(folder, { recursive: true })
})

function open(more: Partial<DownloaderOptions> = {}): Downloader {
  const limits = { stallMs: 20_000, retryMs: 1, maxRetryMs: 5, ...more.limits }
  const downloader = makeDownloader({ allowPrivate: true, ...more, limits })
  downloaders.push(downloader)
  return downloader
}

function requestOf(more: Partial<FileRequest> = {}): FileRequest {
  return {
    url: `${server.url}/file?signature=secret`,
    trustedOrigin: null,
    authorization: null,
    target,
    bytes: null,
    digest: right,
    room: anyRoom,
    signal: new AbortController().signal,
    onBytes: () => {},
    ...more,
  }
}

type Reply = (request: Received, response: http.ServerResponse) => void

/** Everything from the requested range on. */
const whole: Reply = (request, response) => {
  const from = Number(/^bytes=(\d+)-$/.exec(request.headers['range'] ?? '')?.[1] ?? 0)
  const range = { 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` }
  response.writeHead(from > 0 ? 206 : 200, { 'content-length': body.length - from, ...(from > 0 ? range : {}) })
  response.end(body.subarray(from))
}

/** Promises everything and sends the first bytes; then the connection breaks or nothing happens. */
const cut = (bytes: number, end: 'break' | 'stall'): Reply => {
  return (_, response) => {
    response.writeHead(200, { 'content-length': body.length })
    response.write(body.subarray(0, bytes), () => end === 'break' && response.destroy())
  }
}

const inTurn = (...replies: readonly Reply[]): Reply => {
  return (...call) => (replies[server.received.length - 1] ?? whole)(...call)
}

/** A reader may lose the last bytes of a connection that is reset. */
const resumed = expect.stringMatching(/^bytes=[1-9]\d*-$/)
const ranges = (): Array<string | undefined> => server.received.map(({ headers }) => headers['range'])
const names = (): string[] => fs.readdirSync(folder).toSorted()

test('a file appears when it is complete and verified, with its permissions, and is not downloaded again', async () => {
  server.answer = whole
  const downloader = open()
  const download = await downloader.file(requestOf({ mode: 0o444 }))
  expect(download).toEqual({ ok: true, value: { bytes: body.length, isContinued: false } })
  expect(fs.readFileSync(target).equals(body)).toBe(true)
  expect(fs.statSync(target).mode & 0o777).toBe(0o444)
  expect(names()).toEqual(['file'])
  expect(await downloader.file(requestOf())).toMatchObject({ ok: true, value: { bytes: body.length } })
  expect(server.received).toHaveLength(1)
})

test('callers with the same target share one download', async () => {
  server.answer = whole
  const downloader = open()
  const downloads = await Promise.all([1, 2, 3].map(() => downloader.file(requestOf())))
  expect(downloads.map(({ ok }) => ok)).toEqual([true, true, true])
  expect(server.received).toHaveLength(1)
})

test.each(['break', 'stall'] as const)('a connection with a %s is resumed from', async (end) => {
  server.answer = inTurn(cut(400_000, end))
  const download = await open({ limits: { stallMs: end === 'stall' ? 1_000 : 20_000 } }).file(requestOf())
  expect(download).toMatchObject({ ok: true, value: { isContinued: true } })
  expect(fs.readFileSync(target).equals(body)).toBe(true)
  expect(ranges()).toEqual([undefined, resumed])
})

test('an interrupted download is resumed by the next process', async () => {
  server.answer = inTurn(cut(300_000, 'stall'))
  const stop = new AbortController()
  const reached = new Set<number>()
  const first = open().file(requestOf({ signal: stop.signal, onBytes: (bytes) => reached.add(bytes) }))
  await waitFor('the first bytes', () => reached.has(300_000))
  stop.abort()
  expect(await first).toMatchObject({ ok: false, reason: 'cancelled' })
  expect(names()).toEqual(['file.part', 'file.part.json'])
  expect(await open().file(requestOf())).toMatchObject({ ok: true })
  expect(ranges()).toEqual([undefined, 'bytes=300000-'])
  expect(names()).toEqual(['file'])
})

test('a part that a crash left complete and read-only is used', async () => {
  server.answer = cut(600_000, 'break')
  await open({ limits: { maxIdleAttempts: 0 } }).file(requestOf())
  fs.chmodSync(`${target}.part`, 0o444)
  server.answer = whole
  expect(await open().file(requestOf({ mode: 0o444 }))).toMatchObject({ ok: true })
  expect(ranges().at(-1)).toEqual(resumed)
})

test('a wrong digest is an error with both digests, and leaves nothing behind', async () => {
  server.answer = whole
  const download = await open().file(requestOf({ digest: wrong }))
  expect(download).toMatchObject({ ok: false, kind: 'invalid', reason: 'wrong_digest' })
  expect(download).toHaveProperty('message', expect.stringContaining(`file has the SHA-256 ${right.hex}`))
  expect(server.received).toHaveLength(1)
  expect(names()).toEqual([])
})

test('a wrong digest after a resumed download is tried once more from the start', async () => {
  const other: Reply = (_, response) => {
    response.writeHead(200, { 'content-length': body.length })
    response.write(randomBytes(400_000), () => response.destroy())
  }
  server.answer = inTurn(other)
  expect(await open().file(requestOf())).toMatchObject({ ok: true })
  expect(fs.readFileSync(target).equals(body)).toBe(true)
  expect(ranges()).toEqual([undefined, resumed, undefined])
})

test('a budget that is full refuses the file before its first byte, with the numbers', async () => {
  server.answer = whole
  const freeBytes = async (): Promise<number> => 1e12
  const budget = makeDiskBudget({ dir: folder, limitBytes: 900_000, freeBytes })
  const download = await open().file(requestOf({ room: budget.open() }))
  expect(download).toMatchObject({ ok: false, kind: 'no_capacity', reason: 'model_store_full' })
  expect(download).toHaveProperty('message', expect.stringMatching(/1,000,000 bytes.*900,000 bytes/))
  expect(names()).toEqual([])
})

test('a body that is larger than allowed is given up, with or without a stated length', async () => {
  for (const headers of [{ 'content-length': body.length }, {}]) {
    server.answer = (_, response) => void response.writeHead(200, headers).end(body)
    const download = await open().file(requestOf({ maxBytes: 500_000 }))
    expect(download).toMatchObject({ ok: false, reason: 'bad_answer', kind: 'invalid' })
    expect(names()).toEqual([])
  }
})

test('a redirect to a private address is refused, also from an origin of our settings', async () => {
  const inner = await startReceiver()
  server.answer = (_, response) => void response.writeHead(302, { location: `${inner.url}/metadata` }).end()
  const download = await open({ allowPrivate: false }).file(requestOf({ trustedOrigin: server.url }))
  expect(download).toMatchObject({ ok: false, kind: 'invalid', reason: 'address_refused' })
  expect(inner.received).toEqual([])
  expect(names()).toEqual([])
  await inner.close()
})

test('messages have no query, which may contain a signature', async () => {
  server.answer = (_, response) => void response.writeHead(403).end()
  const download = await open().file(requestOf())
  expect(download).toMatchObject({ ok: false, reason: 'bad_status', kind: 'invalid' })
  expect(JSON.stringify(download)).not.toContain('secret')
})

test('a text is bounded, and JSON is parsed or an error', async () => {
  const text = { ...requestOf(), accept: 'application/json', maxBytes: 100 }
  server.answer = (_, response) => void response.end('{"n":1}')
  expect(await open().json(text)).toEqual({ ok: true, value: { n: 1 } })
  expect(await open().text(text)).toEqual({ ok: true, value: '{"n":1}' })
  server.answer = (_, response) => void response.end('<html>')
  expect(await open().json(text)).toMatchObject({ ok: false, reason: 'bad_answer' })
  server.answer = (_, response) => void response.end('x'.repeat(101))
  expect(await open().text(text)).toMatchObject({ ok: false, reason: 'bad_answer' })
})
