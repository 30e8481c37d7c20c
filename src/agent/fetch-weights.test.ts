/** The program that downloads weights into a pod, against a real HTTP server. */
import { createHash } from 'node:crypto'
import fs from 'node:fs/promises'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { waitFor } from '../../test/harness/wait.ts'
import type { PodWeights } from '../contract/pod-weights.ts'
import { fetchWeights } from './fetch-weights.ts'

const body = Buffer.alloc(5_000, 'weights')
const sha256 = createHash('sha256').update(body).digest('hex')
let folder: string
let server: http.Server
/** What each request is answered with; the file, when there is nothing more. */
let answers: Array<(response: http.ServerResponse) => void>
let asked: Array<{ readonly key: string | undefined; readonly range: string | undefined }>

beforeEach(async () => {
  folder = await fs.mkdtemp(path.join(os.tmpdir(), 'berth-pod-weights-'))
  answers = []
  asked = []
  server = http.createServer((request, response) => {
    const { authorization: key, range } = request.headers
    asked.push({ key, range })
    const own = answers.shift()
    if (own !== undefined) return own(response)
    const from = Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0)
    const part = { 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` }
    response.writeHead(from > 0 ? 206 : 200, { 'content-length': body.length - from, ...(from > 0 ? part : {}) })
    response.end(body.subarray(from))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
})
afterEach(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await fs.rm(folder, { recursive: true })
})

function order(digest = sha256): PodWeights {
  const files = ['model.gguf', 'copies/same.gguf'].map((at) => ({ path: at, bytes: body.length, sha256: digest }))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { server: url, workloadId: 'tag', authorization: 'Berth-Pod token', allowPrivate: false, folder, files }
}

const run = (given: PodWeights) =>
  fetchWeights(given, { write: () => {}, signal: new AbortController().signal, retryMs: 1 })

test('downloads each content once with the token of its pod, into all paths, and leaves nothing else', async () => {
  expect(await run(order())).toMatchObject({ ok: true })
  expect(asked).toEqual([{ key: 'Berth-Pod token', range: undefined }])
  expect((await fs.readdir(folder, { recursive: true })).toSorted()).toEqual([
    'copies',
    'copies/same.gguf',
    'model.gguf',
  ])
  expect(await fs.readFile(path.join(folder, 'copies/same.gguf'))).toEqual(body)
})

test('a container that is started again goes on where the last one ended', async () => {
  answers = [
    (response) => void response.writeHead(200, { 'content-length': body.length }).write(body.subarray(0, 2_000)),
  ]
  const stop = new AbortController()
  const first = fetchWeights(order(), { write: () => {}, signal: stop.signal })
  const part = path.join(folder, '.download', `${sha256}.part`)
  const sizeOf = (): Promise<number> =>
    fs.stat(part).then(
      ({ size }) => size,
      () => 0,
    )
  await waitFor('the first part', async () => (await sizeOf()) === 2_000)
  stop.abort()
  expect(await first).toMatchObject({ ok: false, reason: 'cancelled' })
  expect(await run(order())).toMatchObject({ ok: true })
  expect(asked.at(-1)?.range).toBe('bytes=2000-')
})

test('a file with another digest is an error, and is not there for the program', async () => {
  expect(await run(order('0'.repeat(64)))).toMatchObject({ ok: false, reason: 'wrong_digest' })
  await expect(fs.stat(path.join(folder, 'model.gguf'))).rejects.toThrow('ENOENT')
})

test('a server that refuses ends the download, and its reason is the reason', async () => {
  const type = { 'content-type': 'application/json' }
  answers = [(response) => void response.writeHead(404, type).end('{"message":"The model house/x does not exist."}')]
  expect(await run(order())).toMatchObject({
    ok: false,
    reason: 'bad_status',
    kind: 'not_found',
    message: expect.stringMatching(/returned status 404: The model house\/x does not exist\.$/),
  })
  expect(asked).toHaveLength(1)
})
