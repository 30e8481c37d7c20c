/** The program that downloads weights into a pod, against a real HTTP server. */
import fs from 'node:fs/promises'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { waitFor } from '../../test/harness/wait.ts'
import { startWeightsServer, type WeightsServer } from '../../test/harness/weights-server.ts'
import type { PodWeights } from '../contract/pod-weights.ts'
import { fetchWeights } from './fetch-weights.ts'

let server: WeightsServer
beforeEach(async () => {
  server = await startWeightsServer()
})
afterEach(() => server.close())

const run = (order: PodWeights) =>
  fetchWeights(order, { write: () => {}, signal: new AbortController().signal, retryMs: 1 })

test('downloads each content once with the token of its pod, into all paths, and leaves nothing else', async () => {
  expect(await run(server.order())).toMatchObject({ ok: true })
  expect(server.asked).toEqual([{ key: 'Berth-Pod token', range: undefined }])
  expect((await fs.readdir(server.folder, { recursive: true })).toSorted()).toEqual([
    'copies',
    'copies/same.gguf',
    'model.gguf',
  ])
  expect(await fs.readFile(path.join(server.folder, 'copies/same.gguf'))).toEqual(server.body)
})

test('a container that is started again goes on where the last one ended', async () => {
  server.answers = [
    (response) =>
      void response.writeHead(200, { 'content-length': server.body.length }).write(server.body.subarray(0, 2_000)),
  ]
  const stop = new AbortController()
  const first = fetchWeights(server.order(), { write: () => {}, signal: stop.signal })
  const part = path.join(server.folder, '.download', `${server.sha256}.part`)
  const sizeOf = (): Promise<number> =>
    fs.stat(part).then(
      ({ size }) => size,
      () => 0,
    )
  await waitFor('the first part', async () => (await sizeOf()) === 2_000)
  stop.abort()
  expect(await first).toMatchObject({ ok: false, reason: 'cancelled' })
  expect(await run(server.order())).toMatchObject({ ok: true })
  expect(server.asked.at(-1)?.range).toBe('bytes=2000-')
})

test('a file with another digest is an error, and is not there for the program', async () => {
  expect(await run(server.order({ sha256: '0'.repeat(64) }))).toMatchObject({ ok: false, reason: 'wrong_digest' })
  await expect(fs.stat(path.join(server.folder, 'model.gguf'))).rejects.toThrow('ENOENT')
})

test('a server that refuses ends the download, and its reason is the reason', async () => {
  const type = { 'content-type': 'application/json' }
  server.answers = [
    (response) => void response.writeHead(404, type).end('{"message":"The model house/x does not exist."}'),
  ]
  expect(await run(server.order())).toMatchObject({
    ok: false,
    reason: 'bad_status',
    kind: 'not_found',
    message: expect.stringMatching(/returned status 404: The model house\/x does not exist\.$/),
  })
  expect(server.asked).toHaveLength(1)
})
