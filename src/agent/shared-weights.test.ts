/** Weights on storage that several pods of a node share, against a real HTTP server. */
import fs from 'node:fs/promises'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { waitFor } from '../../test/harness/wait.ts'
import { startWeightsServer, type WeightsServer } from '../../test/harness/weights-server.ts'
import { systemClock } from '../base/instant.ts'
import { fetchSharedWeights } from './shared-weights.ts'

const times = { renewMs: 20, settleMs: 20, pollMs: 10 }
const forever = new AbortController().signal
let server: WeightsServer
beforeEach(async () => {
  server = await startWeightsServer()
})
afterEach(() => server.close())

function run(pod: string, { signal = forever, write = (_line: string) => {}, sha256 = server.sha256 } = {}) {
  const order = server.order({ workloadId: pod, sha256 })
  return fetchSharedWeights(order, { write, signal, clock: systemClock, retryMs: 1, times })
}

const at = (name: string): string => path.join(server.folder, name)
const sizeOf = (name: string): Promise<number> =>
  fs.stat(at(name)).then(
    ({ size }) => size,
    () => 0,
  )
/** Sends the beginning and then nothing. */
function stall(bytes: number): void {
  server.answers.push(
    (response) =>
      void response.writeHead(200, { 'content-length': server.body.length }).write(server.body.subarray(0, bytes)),
  )
}

test('pods that start together download the weights once, and later ones not at all', async () => {
  const all = ['one', 'two', 'three'].map((pod) => run(pod))
  expect((await Promise.all(all)).map(({ ok }) => ok)).toEqual([true, true, true])
  expect(await run('four')).toMatchObject({ ok: true })
  expect(server.asked).toHaveLength(1)
  expect((await fs.readdir(server.folder, { recursive: true })).toSorted()).toEqual([
    'files',
    'files/copies',
    'files/copies/same.gguf',
    'files/model.gguf',
  ])
  expect(await fs.readFile(at('files/model.gguf'))).toEqual(server.body)
  expect((await fs.stat(at('files/model.gguf'))).mode & 0o777).toBe(0o444)
  expect((await fs.stat(at('files'))).mode & 0o777).toBe(0o755)
})

test('a pod that waits shows how far the other one is', async () => {
  stall(2_000)
  const stop = new AbortController()
  const first = run('one', { signal: stop.signal })
  await waitFor('the first part', async () => (await sizeOf(`parts-one/${server.sha256}.part`)) === 2_000)
  const lines: string[] = []
  const second = run('two', { write: (line) => lines.push(line) })
  await waitFor('its message', () => lines.some((line) => line.startsWith('another replica downloads the weights')))
  stop.abort()
  expect(await first).toMatchObject({ ok: false, reason: 'cancelled' })
  // It goes on where the first one ended.
  expect(await second).toMatchObject({ ok: true })
  expect(server.asked.map(({ range }) => range)).toEqual([undefined, 'bytes=2000-'])
})

test('the download of a pod that was killed is taken over, and a pod that lost it does not go on', async () => {
  stall(2_000)
  const dead = run('dead')
  await waitFor('the first part', async () => (await sizeOf(`parts-dead/${server.sha256}.part`)) === 2_000)
  // Its node seems to have been frozen: the lease is old, and another pod has it before the next renewal.
  await fs.writeFile(at('lease-next'), 'next')
  await fs.rename(at('lease-next'), at('lease'))
  expect(await run('next')).toMatchObject({ ok: true })
  expect(await dead).toMatchObject({ ok: true })
  expect(server.asked).toHaveLength(2)
  await fs.rm(at('files'), { recursive: true })
  await fs.writeFile(at('lease'), 'long-gone')
  await fs.utimes(at('lease'), new Date(0), new Date(0))
  expect(await run('later')).toMatchObject({ ok: true })
  await expect(fs.stat(at('lease'))).rejects.toThrow('ENOENT')
})

test('a file with another digest fails every pod, and none finds it', async () => {
  const sha256 = '0'.repeat(64)
  const both = await Promise.all([run('one', { sha256 }), run('two', { sha256 })])
  expect(both).toMatchObject([
    { ok: false, reason: 'wrong_digest' },
    { ok: false, reason: 'wrong_digest' },
  ])
  await expect(fs.stat(at('files'))).rejects.toThrow('ENOENT')
})
