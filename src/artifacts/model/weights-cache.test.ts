/** The cache of a host against a real HTTP server that counts, stalls, redirects and lies. */
import { createHash } from 'node:crypto'
import fs from 'node:fs/promises'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import { systemClock } from '../../base/instant.ts'
import { makeHostFiles, type HostFilesOptions } from './host-files.ts'
import { makeWeightsCache, type EnsureWeights, type OwnedWeights, type WeightsCache } from './weights-cache.ts'

const forever = new AbortController().signal
const limits = { stallMs: 150, retryMs: 1, maxRetryMs: 5 }
const KB = 1_000
let folder: string
let server: http.Server
let requests: Array<{ readonly path: string; readonly range: string | undefined; readonly key: string | undefined }>
/** Answers by digest, which the server gives instead of the file. */
let answers: Map<string, (response: http.ServerResponse, body: Buffer, from: number) => void>
const bodies = new Map<string, Buffer>()

beforeEach(async () => {
  folder = await fs.mkdtemp(path.join(os.tmpdir(), 'berth-weights-'))
  requests = []
  answers = new Map()
  server = http.createServer((request, response) => {
    const { range, authorization: key } = request.headers
    requests.push({ path: request.url ?? '', range, key })
    const digest = path.basename(request.url ?? '')
    const body = bodies.get(digest) ?? Buffer.alloc(0)
    const from = Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0)
    const own = answers.get(digest)
    answers.delete(digest)
    if (own === undefined) sendFrom(response, body, from).end(body.subarray(from))
    else own(response, body, from)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
})
afterEach(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await fs.rm(folder, { recursive: true })
})

function sendFrom(response: http.ServerResponse, body: Buffer, from: number): http.ServerResponse {
  const range = { 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` }
  return response.writeHead(from > 0 ? 206 : 200, { 'content-length': body.length - from, ...(from > 0 ? range : {}) })
}

function urlOf(): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function openCache(budgetKb: number, more: Partial<HostFilesOptions> = {}): WeightsCache {
  const authorize = (at: string): string => `key for ${at}`
  const files = makeHostFiles({ server: urlOf(), authorize, allowPrivate: false, limits, ...more })
  return makeWeightsCache({ dir: path.join(folder, 'weights'), budgetBytes: budgetKb * KB, files, clock: systemClock })
}

/** A model of one file; the seed makes it another. */
function weightsOf(seed: string, kb = 10): OwnedWeights {
  const body = Buffer.alloc(kb * KB, seed)
  const sha256 = createHash('sha256').update(body).digest('hex')
  bodies.set(sha256, body)
  return { owner: 'ada', mountPath: '/models', files: [{ path: 'deep/model.bin', bytes: body.length, sha256 }] }
}

async function hold(cache: WeightsCache, weights: OwnedWeights, more: Partial<EnsureWeights> = {}) {
  const options = { inUse: async () => [], progress: () => {}, signal: forever, ...more }
  return cache.hold('workload-1', weights, options, async () => {})
}

async function isThere(cache: WeightsCache, weights: OwnedWeights): Promise<boolean> {
  return fs.stat(cache.folderOf(weights)).then(
    () => true,
    () => false,
  )
}

describe('weights on a host', () => {
  test('are downloaded once for all machines, signed, verified and read-only', async () => {
    const cache = openCache(100)
    const weights = weightsOf('a')
    const progress: number[] = []
    const both = [hold(cache, weights, { progress: (done) => progress.push(done) }), hold(cache, weights)]
    expect((await Promise.all(both)).map(({ ok }) => ok)).toEqual([true, true])
    expect((await hold(openCache(100), weights)).ok).toBe(true)
    const [file] = weights.files
    const at = `/v2/agent/weights/workload-1/${file?.sha256}`
    expect(requests).toEqual([{ path: at, range: undefined, key: `key for ${at}` }])
    const place = path.join(cache.folderOf(weights), 'deep/model.bin')
    expect((await fs.readFile(place)).equals(bodies.get(file?.sha256 ?? '') ?? Buffer.alloc(0))).toBe(true)
    expect((await fs.stat(place)).mode & 0o222).toBe(0)
    expect(progress[0]).toBe(0)
    expect(await cache.usedBytes()).toBe(file?.bytes)
  })

  test('share files between sets', async () => {
    const cache = openCache(100)
    const [base, adapter] = [weightsOf('b'), weightsOf('c', 1)]
    await hold(cache, base)
    const both = {
      ...base,
      mountPath: '/m',
      files: [...base.files, ...adapter.files.map((one) => ({ ...one, path: 'adapter.bin' }))],
    }
    await hold(cache, both)
    expect(requests).toHaveLength(2)
  })

  test('of one account are no proof for another: it gets them from its own source or not at all (issue 31, 4)', async () => {
    const cache = openCache(100)
    const weights = weightsOf('p')
    const [file] = weights.files
    await hold(cache, weights)
    const stranger = { ...weights, owner: 'eve' }
    answers.set(file?.sha256 ?? '', (response) => void response.writeHead(404).end())
    expect((await hold(cache, stranger)).ok).toBe(false)
    expect(await isThere(cache, stranger)).toBe(false)
    // Also while the download of the other is under way, and with an unfinished one on the disk.
    const next = weightsOf('q')
    const digest = next.files[0]?.sha256 ?? ''
    const stop = new AbortController()
    const reached = new Set<number>()
    answers.set(digest, (response, body) => void sendFrom(response, body, 0).write(body.subarray(0, 9_000)))
    const first = hold(cache, next, { signal: stop.signal, progress: (done) => reached.add(done) })
    await waitFor('the first part', () => reached.has(9_000))
    answers.set(digest, (response) => void response.writeHead(404).end())
    expect((await hold(cache, { ...next, owner: 'eve' })).ok).toBe(false)
    expect(requests.at(-1)?.range).toBeUndefined()
    stop.abort()
    await first
    // With a source of its own it has its own copy.
    expect((await hold(cache, stranger)).ok).toBe(true)
    expect(cache.folderOf(stranger)).not.toBe(cache.folderOf(weights))
    expect(await isThere(cache, weights)).toBe(true)
  })

  test('make room by least recent use, never those of a machine', async () => {
    const cache = openCache(35)
    const [first, second, third, next] = ['d', 'e', 'f', 'g'].map((seed) => weightsOf(seed)) as [
      OwnedWeights,
      OwnedWeights,
      OwnedWeights,
      OwnedWeights,
    ]
    for (const one of [first, second, third]) await hold(cache, one)
    const old = new Date(0)
    await fs.utimes(cache.folderOf(first), old, old)
    await fs.utimes(cache.folderOf(second), old, new Date(1_000))
    expect((await hold(cache, next, { inUse: async () => [cache.idOf(first)] })).ok).toBe(true)
    expect(await Promise.all([first, second, third, next].map((one) => isThere(cache, one)))).toEqual([
      true,
      false,
      true,
      true,
    ])
  })

  test('that cannot have enough room are refused with the numbers, and nothing in use goes', async () => {
    const cache = openCache(15)
    const [inUse, large] = [weightsOf('h'), weightsOf('i')]
    await hold(cache, inUse)
    const refused = await hold(cache, large, { inUse: async () => [cache.idOf(inUse)] })
    expect(refused).toMatchObject({ ok: false, reason: 'model_store_full', kind: 'no_capacity' })
    expect((await hold(cache, weightsOf('j', 20))).ok).toBe(false)
    expect(await isThere(cache, inUse)).toBe(true)
  })

  test('resume after a stall; a slow connection is not one', async () => {
    // Longer than a busy machine pauses, and shorter than the slow download.
    const cache = openCache(100, { limits: { ...limits, stallMs: 1_000 } })
    const weights = weightsOf('k')
    const [file] = weights.files
    answers.set(file?.sha256 ?? '', (response, body) => void sendFrom(response, body, 0).write(body.subarray(0, 4_000)))
    expect((await hold(cache, weights)).ok).toBe(true)
    expect(requests.map(({ range }) => range)).toEqual([undefined, 'bytes=4000-'])
    const slow = weightsOf('l', 1)
    answers.set(slow.files[0]?.sha256 ?? '', (response, body) => {
      sendFrom(response, body, 0)
      let sent = 0
      const timer = setInterval(() => {
        response.write(body.subarray(sent, sent + 100))
        sent += 100
        if (sent < body.length) return
        clearInterval(timer)
        response.end()
      }, 150)
    })
    expect((await hold(cache, slow)).ok).toBe(true)
    expect(requests).toHaveLength(3)
  })

  test('resume in another process after an interruption', async () => {
    const weights = weightsOf('m')
    const stop = new AbortController()
    const reached = new Set<number>()
    const [file] = weights.files
    answers.set(file?.sha256 ?? '', (response, body) => void sendFrom(response, body, 0).write(body.subarray(0, 6_000)))
    const attempt = hold(openCache(100), weights, { signal: stop.signal, progress: (done) => reached.add(done) })
    await waitFor('the first part', () => reached.has(6_000))
    stop.abort()
    expect(await attempt).toMatchObject({ ok: false, reason: 'cancelled' })
    expect((await hold(openCache(100), weights)).ok).toBe(true)
    expect(requests.at(-1)?.range).toBe('bytes=6000-')
  })

  test('with another content are refused and not kept', async () => {
    const cache = openCache(100)
    const weights = weightsOf('n')
    const [file] = weights.files
    answers.set(file?.sha256 ?? '', (response, body) => sendFrom(response, body, 0).end(Buffer.alloc(body.length, 'x')))
    expect(await hold(cache, weights)).toMatchObject({ ok: false, reason: 'wrong_digest' })
    expect(await isThere(cache, weights)).toBe(false)
    expect((await hold(cache, weights)).ok).toBe(true)
  })

  test('elsewhere are downloaded without the key of the host, and never from private addresses unless allowed', async () => {
    const weights = weightsOf('o')
    const [file] = weights.files
    const other = http.createServer((request, response) => {
      requests.push({ path: 'elsewhere', range: undefined, key: request.headers.authorization })
      response.end(bodies.get(file?.sha256 ?? ''))
    })
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    const location = `http://127.0.0.1:${(other.address() as AddressInfo).port}/file`
    const redirect = (response: http.ServerResponse): void => void response.writeHead(307, { location }).end()
    answers.set(file?.sha256 ?? '', redirect)
    expect(await hold(openCache(100), weights)).toMatchObject({ ok: false, reason: 'address_refused' })
    answers.set(file?.sha256 ?? '', redirect)
    expect((await hold(openCache(100, { allowPrivate: true }), weights)).ok).toBe(true)
    expect(requests.at(-1)).toEqual({ path: 'elsewhere', range: undefined, key: undefined })
    other.close()
  })
})
