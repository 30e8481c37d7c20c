/** The engine of Kubernetes clusters at the start of a server. test/journeys/kubernetes.lab.test.ts has a real cluster. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { succeed } from '../../../test/harness/journey.ts'
import { testServer } from '../../../test/harness/server.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-clusters-'))
})
afterEach(() => rm(folder, { recursive: true }))

const cluster = { name: 'lab', kubeconfig: 'kubeconfig', region: 'eu-1', prices: { 'NVIDIA-H200': '2.50' } }

async function envWith(clusters: readonly object[]) {
  const file = path.join(folder, 'clusters.json')
  await writeFile(file, JSON.stringify({ clusters }))
  return { BERTH_DRIVERS: 'mock,kubernetes', BERTH_KUBERNETES: file }
}

async function writeKubeconfig(user: object): Promise<void> {
  // Nothing listens on the port of the discard protocol.
  const config = {
    clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:9' } }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }
  await writeFile(path.join(folder, 'kubeconfig'), JSON.stringify(config))
}

test('a cluster that is down keeps no server from starting, and no other machine from being sold', async () => {
  await writeKubeconfig({ token: 'some' })
  const server = await testServer({ env: await envWith([cluster]) })
  try {
    const { clusters } = await succeed(server.operator, 'GET', '/v2/operator/clusters')
    expect(clusters).toMatchObject([{ name: 'lab', reachable: false, version: null, nodes: [] }])
    const { instances } = await succeed(server.anonymous, 'POST', '/v1/marketplace', { filters: {} })
    expect(instances.length).toBeGreaterThan(0)
    const check = await server.operator('POST', '/v2/operator/clusters/lab/check', {})
    expect([check.status, check.body.reason]).toEqual([503, 'cluster_unreachable'])
    const absent = await server.operator('POST', '/v2/operator/clusters/other/check', {})
    expect([absent.status, absent.body.reason]).toEqual([404, 'cluster_not_found'])
  } finally {
    await server.close()
  }
})

test('faults of the file and of kubeconfigs stop the start, with the name of the cluster', async () => {
  await writeKubeconfig({ exec: { command: 'aws' } })
  const start = async (clusters: readonly object[]) => testServer({ env: await envWith(clusters) })
  await expect(start([{ ...cluster, region: '' }])).rejects.toThrow('BERTH_KUBERNETES: cluster lab: region')
  await expect(start([cluster])).rejects.toThrow(/BERTH_KUBERNETES: cluster lab: kubeconfig: .*`exec`/)
  await expect(start([{ ...cluster, kubeconfig: 'absent' }])).rejects.toThrow('cannot be read (ENOENT)')
  const { kubeconfig: _, ...inside } = cluster
  await expect(start([inside])).rejects.toThrow('does not run in a cluster')
})
