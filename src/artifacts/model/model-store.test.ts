import { createHash, randomBytes } from 'node:crypto'
import fs from 'node:fs'
import type http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startReceiver, type Received, type Receiver } from '../../../test/harness/receiver.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import type { Result } from '../../contract/result.ts'
import type { ModelFile } from '../../contract/model.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import { makeModelStore, type ModelStore, type ModelStoreOptions } from './model-store.ts'
import type { Pulled } from './pull.ts'

const MODEL = 'house/tiny:1'
const body = randomBytes(3_000_000)
const nothing = (): void => {}

let root: string
let server: Receiver
let stores: ModelStore[]
beforeEach(async () => {
  root = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-models-'))
  server = await startReceiver()
  stores = []
})
afterEach(async () => {
  await Promise.all(stores.map((store) => store.close()))
  await server.close()
  fs.rmSync(root, { recursive: true })
})

function openStore(more: Partial<ModelStoreOptions> = {}): ModelStore {
  const store = makeModelStore({
    dir: path.join(root, 'models'),
    limitBytes: 1_000_000_000,
    allowPrivate: true,
    npmRegistry: () => Promise.reject(new Error('not asked for here')),
    hub: null,
    log: { debug: nothing, info: nothing, warn: nothing },
    clock: manualClock(),
    limits: { stallMs: 20_000, retryMs: 1, maxRetryMs: 5 },
    freeBytes: () => Promise.resolve(1e12),
    ...more,
  })
  stores.push(store)
  return store
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
const oneFile = (more: Partial<ModelFile> = {}): ModelFile[] => [
  { source: `${server.url}/tiny.gguf`, file: 'tiny.gguf', bytes: body.length, sha256: sha256(body), ...more },
]

type Handler = (request: Received, response: http.ServerResponse) => void

/** A file server with range support. `cut` changes the bytes to send. */
function serving(
  content: Buffer,
  options: { etag?: string; cut?: (rest: Buffer, requests: number) => Buffer } = {},
): Handler {
  let requests = 0
  return (request, response) => {
    requests += 1
    const { etag, cut = (rest) => rest } = options
    const from = Number(/^bytes=(\d+)-$/.exec(request.headers['range'] ?? '')?.[1] ?? 0)
    const isSame = request.headers['if-range'] === undefined || request.headers['if-range'] === etag
    const rest = isSame ? content.subarray(from) : content
    response.writeHead(isSame && from > 0 ? 206 : 200, {
      'content-length': rest.length,
      ...(etag === undefined ? {} : { etag }),
      ...(isSame && from > 0 ? { 'content-range': `bytes ${from}-${content.length - 1}/${content.length}` } : {}),
    })
    const sent = cut(rest, requests)
    if (sent.length === rest.length) response.end(sent)
    else if (sent.length === 0) response.flushHeaders()
    else response.write(sent)
  }
}

/** Sends only part of the first answer and closes the connection. */
const breakingOnce = (content: Buffer, at: number, etag?: string): Handler => {
  const whole = serving(content, etag === undefined ? {} : { etag })
  let isFirst = true
  return (request, response) => {
    if (!isFirst) return whole(request, response)
    isFirst = false
    response.writeHead(200, { 'content-length': content.length, ...(etag === undefined ? {} : { etag }) })
    response.write(content.subarray(0, at), () => response.destroy())
  }
}

function pathOf(result: Result<Pulled>, file = 'tiny.gguf'): string {
  if (!result.ok) throw new Error(result.message)
  return result.value.paths.get(file) ?? ''
}

function failureOf(result: Result<Pulled>): { kind: string; reason: string | undefined; message: string } {
  if (result.ok) throw new Error('it succeeded')
  return { kind: result.kind, reason: result.reason, message: result.message }
}

const everyFile = (): string[] =>
  fs
    .readdirSync(path.join(root, 'models'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.startsWith('.manifest'))
    .map((entry) => entry.name)

describe('a file', () => {
  test('is downloaded once, stored under its model and name, with progress', async () => {
    server.answer = serving(body)
    const store = openStore()
    const reported: Array<[number, number | null]> = []
    const place = pathOf(
      await store.ensure(MODEL, oneFile(), { onProgress: (done, total) => reported.push([done, total]) }),
    )
    expect(place).toBe(path.join(root, 'models', 'house%2Ftiny%3A1', 'tiny.gguf'))
    expect(fs.readFileSync(place).equals(body)).toBe(true)
    expect(reported.at(-1)).toEqual([body.length, body.length])
    expect(reported.map(([done]) => done)).toEqual(reported.map(([done]) => done).toSorted((a, b) => a - b))
    expect(pathOf(await openStore().ensure(MODEL, oneFile()))).toBe(place)
    expect(server.received).toHaveLength(1)
    expect(everyFile()).toEqual(['tiny.gguf'])
  })

  test('resumes after a broken connection', async () => {
    server.answer = breakingOnce(body, 1_000_000, '"v1"')
    const place = pathOf(await openStore().ensure(MODEL, oneFile({ sha256: null })))
    expect(fs.readFileSync(place).equals(body)).toBe(true)
    const [first, second] = server.received
    expect(first?.headers['range']).toBeUndefined()
    expect(second?.headers).toMatchObject({ range: expect.stringMatching(/^bytes=[1-9]\d*-$/), 'if-range': '"v1"' })
    expect(server.received).toHaveLength(2)
  })

  test('starts over when the file has changed meanwhile', async () => {
    const other = randomBytes(2_000_000)
    const before = breakingOnce(body, 1_000_000, '"v1"')
    const after = serving(other, { etag: '"v2"' })
    server.answer = (...call) => (server.received.length === 1 ? before(...call) : after(...call))
    const place = pathOf(await openStore().ensure(MODEL, oneFile({ bytes: null, sha256: null })))
    expect(fs.readFileSync(place).equals(other)).toBe(true)
    expect(server.received[1]?.headers['if-range']).toBe('"v1"')
  })

  test('starts over without a validator or digest', async () => {
    server.answer = breakingOnce(body, 1_000_000)
    const place = pathOf(await openStore().ensure(MODEL, oneFile({ sha256: null })))
    expect(fs.readFileSync(place).equals(body)).toBe(true)
    expect(server.received.map(({ headers }) => headers['range'])).toEqual([undefined, undefined])
  })

  test('is downloaded again when its rest belongs to another version', async () => {
    const other = breakingOnce(randomBytes(body.length), 1_000_000)
    const right = serving(body)
    server.answer = (...call) => (server.received.length === 1 ? other(...call) : right(...call))
    // With a digest it can resume without an entity tag.
    const place = pathOf(await openStore().ensure(MODEL, oneFile()))
    expect(fs.readFileSync(place).equals(body)).toBe(true)
    expect(server.received.map(({ headers }) => headers['range'] === undefined)).toEqual([true, false, true])
  })

  test('that stalls is requested again', async () => {
    const etag = '"v1"'
    server.answer = serving(body, { etag, cut: (rest, requests) => (requests < 3 ? rest.subarray(0, 500_000) : rest) })
    const store = openStore({ limits: { stallMs: 300, retryMs: 1, maxRetryMs: 5 } })
    const place = pathOf(await store.ensure(MODEL, oneFile()))
    expect(fs.readFileSync(place).equals(body)).toBe(true)
    // If this machine itself stalls for that long, there is one more request each time.
    expect(server.received.length).toBeGreaterThanOrEqual(3)
  })

  test('is given up after several attempts without progress', async () => {
    server.answer = serving(body, { cut: () => Buffer.alloc(0) })
    // Long enough for the headers to arrive on a busy machine.
    const store = openStore({ limits: { stallMs: 400, retryMs: 1, maxRetryMs: 5 } })
    const failure = failureOf(await store.ensure(MODEL, oneFile()))
    expect(failure).toMatchObject({ kind: 'unavailable', message: expect.stringContaining('no data for 0.4 s') })
    expect(server.received).toHaveLength(5)
  })

  test('is retried after a 503, but not after a 404', async () => {
    const whole = serving(body)
    server.answer = (request, response) =>
      server.received.length < 3 ? void response.writeHead(503).end() : whole(request, response)
    pathOf(await openStore().ensure(MODEL, oneFile()))
    server.answer = (_, response) => void response.writeHead(404).end()
    expect(failureOf(await openStore().ensure('other', oneFile())).kind).toBe('not_found')
    expect(server.received).toHaveLength(4)
  })
})

describe('rejects', () => {
  test('a wrong digest', async () => {
    const wrong = '0'.repeat(64)
    server.answer = serving(body)
    const failure = failureOf(await openStore().ensure(MODEL, oneFile({ sha256: wrong })))
    expect(failure).toMatchObject({ kind: 'invalid', reason: 'wrong_digest' })
    expect(failure.message).toContain(sha256(body))
    expect(failure.message).toContain(wrong)
    expect(everyFile().filter((name) => !name.endsWith('.json'))).toEqual([])
  })

  test('a wrong size, known before the body is read', async () => {
    server.answer = serving(body, { cut: () => Buffer.alloc(0) })
    const failure = failureOf(await openStore().ensure(MODEL, oneFile({ bytes: 17 })))
    expect(failure).toMatchObject({ kind: 'invalid', reason: 'wrong_size' })
    expect(failure.message).toContain('3,000,000 bytes')
    expect(everyFile()).toEqual([])
  })

  test('a file that was changed on disk', async () => {
    server.answer = serving(body)
    const place = pathOf(await openStore().ensure(MODEL, oneFile()))
    fs.writeFileSync(place, 'something else')
    expect(pathOf(await openStore().ensure(MODEL, oneFile()))).toBe(place)
    expect(fs.readFileSync(place).equals(body)).toBe(true)
    expect(server.received).toHaveLength(2)
  })

  test('changed content of a source whose first download was pinned', async () => {
    server.answer = serving(body)
    const place = pathOf(await openStore().ensure(MODEL, oneFile({ sha256: null })))
    fs.rmSync(place)
    server.answer = serving(randomBytes(body.length))
    const failure = failureOf(await openStore().ensure(MODEL, oneFile({ sha256: null })))
    expect(failure).toMatchObject({ reason: 'wrong_digest', message: expect.stringContaining(sha256(body)) })
    expect(fs.existsSync(place)).toBe(false)
  })
})

describe('the disk', () => {
  test('limit rejects a pull before it starts, with the numbers', async () => {
    const failure = failureOf(await openStore({ limitBytes: 2_999_999 }).ensure(MODEL, oneFile()))
    expect(failure).toMatchObject({ kind: 'no_capacity', reason: 'model_store_full' })
    expect(failure.message).toMatch(/ 3,000,000 bytes, .* \d+ bytes of 2,999,999 bytes/)
    expect(server.received).toEqual([])
  })

  test('with too little space rejects a pull before it starts', async () => {
    const free = 3_000_000 + 64 * 1_048_576
    const at = (bytes: number) => openStore({ freeBytes: () => Promise.resolve(bytes) }).ensure(MODEL, oneFile())
    expect(failureOf(await at(free - 1))).toMatchObject({ kind: 'no_capacity', reason: 'disk_full' })
    expect(server.received).toEqual([])
    server.answer = serving(body)
    pathOf(await at(free))
  })

  test('limit holds for downloads of unknown size', async () => {
    server.answer = (_, response) => {
      const more = (): void => {
        while (!response.destroyed && response.write(body)) continue
      }
      response.on('drain', more)
      more()
    }
    const store = openStore({ limitBytes: 10_000_000 })
    const failure = failureOf(await store.ensure(MODEL, oneFile({ bytes: null, sha256: null })))
    expect(failure).toMatchObject({ kind: 'no_capacity', reason: 'model_store_full' })
    expect((await store.usage()).usedBytes).toBeLessThan(1_000)
  })

  test('budget is shared by concurrent pulls', async () => {
    server.answer = serving(body)
    const store = openStore({ limitBytes: 5_000_000 })
    const both = await Promise.all([store.ensure('a', oneFile()), store.ensure('b', oneFile())])
    expect(both.filter(({ ok }) => ok)).toHaveLength(1)
    expect((await store.usage()).usedBytes).toBeLessThan(5_000_000)
  })

  test('space of a removed model is freed', async () => {
    server.answer = serving(body)
    const store = openStore({ limitBytes: 4_000_000 })
    pathOf(await store.ensure('a', oneFile()))
    expect(failureOf(await store.ensure('b', oneFile())).reason).toBe('model_store_full')
    await store.remove('a')
    pathOf(await store.ensure('b', oneFile()))
    expect((await store.list()).map(({ model, files, bytes }) => [model, files[0]?.file, bytes > 3_000_000])).toEqual([
      ['b', 'tiny.gguf', true],
    ])
  })

  test('listing shows files that belong to no model', async () => {
    server.answer = serving(body)
    const store = openStore()
    const place = pathOf(await store.ensure(MODEL, oneFile()))
    fs.writeFileSync(path.join(path.dirname(place), 'left-over.bin'), 'x')
    fs.mkdirSync(path.join(root, 'models', 'forgotten'))
    fs.writeFileSync(path.join(root, 'models', 'forgotten', 'old.gguf'), 'xyz')
    expect(await store.list()).toMatchObject([
      { model: null, folder: 'forgotten', bytes: 3, files: [], orphans: ['old.gguf'] },
      {
        model: MODEL,
        files: [{ file: 'tiny.gguf', sha256: sha256(body) }],
        partialBytes: 0,
        orphans: ['left-over.bin'],
      },
    ])
  })
})

describe('callers', () => {
  /** Answers are held until released. */
  function holding(): { release: () => void; handler: Handler } {
    const waiting: Array<() => void> = []
    const whole = serving(body)
    return {
      release: () => waiting.splice(0).forEach((go) => go()),
      handler: (request, response) => void waiting.push(() => whole(request, response)),
    }
  }

  test('at the same time share one download', async () => {
    server.answer = serving(body)
    const store = openStore()
    const places = await Promise.all(Array.from({ length: 5 }, () => store.ensure(MODEL, oneFile())))
    expect(new Set(places.map((place) => pathOf(place))).size).toBe(1)
    expect(server.received).toHaveLength(1)
  })

  test('can leave without ending the download; the last one ends it', async () => {
    const { handler, release } = holding()
    server.answer = handler
    const store = openStore({ limits: { stallMs: 20_000 } })
    const [one, two] = [new AbortController(), new AbortController()]
    const first = store.ensure(MODEL, oneFile(), { signal: one.signal })
    const second = store.ensure(MODEL, oneFile(), { signal: two.signal })
    await waitFor('the request', () => server.received.length === 1)
    one.abort()
    expect(failureOf(await first).reason).toBe('cancelled')
    release()
    pathOf(await second)

    const third = store.ensure('other', oneFile(), { signal: two.signal })
    await waitFor('the request', () => server.received.length === 2)
    two.abort()
    expect(failureOf(await third).reason).toBe('cancelled')
    // Nobody uses the model any more: the next caller starts a new download.
    const fourth = store.ensure('other', oneFile())
    await waitFor('the request', () => server.received.length === 3)
    release()
    pathOf(await fourth)
  })

  test('with another list of files wait for the running pull; unlisted files are deleted', async () => {
    server.answer = serving(body)
    const store = openStore()
    const [before, after] = await Promise.all([
      store.ensure(MODEL, oneFile()),
      store.ensure(MODEL, oneFile({ file: 'other.gguf' })),
    ])
    expect(before.ok).toBe(true)
    expect(fs.existsSync(pathOf(after, 'other.gguf'))).toBe(true)
    expect(everyFile()).toEqual(['other.gguf'])
  })

  test('fail when the model is removed meanwhile', async () => {
    server.answer = holding().handler
    const store = openStore({ limits: { stallMs: 20_000 } })
    const pulled = store.ensure(MODEL, oneFile())
    await waitFor('the request', () => server.received.length === 1)
    await store.remove(MODEL)
    expect(failureOf(await pulled).reason).toBe('cancelled')
    expect(await store.list()).toEqual([])
  })
})
