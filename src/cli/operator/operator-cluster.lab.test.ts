/** `berth operator clusters` beside a server whose cluster does not answer. test/journeys/kubernetes.lab.test.ts has one that does. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let folder: string
let cli: CliTest

beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-clusters-'))
  // Nothing listens on the port of the discard protocol.
  const config = {
    clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:9' } }],
    users: [{ name: 'u', user: { token: 'some' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }
  await writeFile(path.join(folder, 'kubeconfig'), JSON.stringify(config))
  const file = path.join(folder, 'clusters.yaml')
  const cluster = { name: 'lab', kubeconfig: 'kubeconfig', region: 'eu-1', prices: { 'NVIDIA-H200': '2.50' } }
  await writeFile(file, JSON.stringify({ clusters: [cluster] }))
  cli = await startCliTest({ BERTH_DRIVERS: 'mock,kubernetes', BERTH_KUBERNETES: file })
})
afterAll(async () => {
  await cli.close()
  await rm(folder, { recursive: true })
})

test('lists a cluster that does not answer, with the reason', async () => {
  const { out, code } = await cli.berth(['operator', 'clusters', 'ls'])
  expect([code, out]).toEqual([0, expect.stringMatching(/^CLUSTER +STATUS/m)])
  expect(out).toMatch(/^lab +.*ECONNREFUSED.*0 of 0 on sale/m)
})

test('a check says which cluster does not answer, or that there is none', async () => {
  const down = await cli.berth(['operator', 'clusters', 'check', 'lab', '--image', 'busybox:1'])
  expect([down.code === 0, down.error]).toEqual([false, expect.stringContaining('lab does not answer')])
  const absent = await cli.berth(['operator', 'clusters', 'check', 'other'])
  expect([absent.code === 0, absent.error]).toEqual([false, expect.stringContaining('no cluster named other')])
})
