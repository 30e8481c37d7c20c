/**
 * A Kubernetes cluster of simulated nodes (kwok) under a real control plane: how fast Berth sees it, sells it and fills
 * it, against creating the same pods with the client alone. BERTH_BENCH_NODES and BERTH_BENCH_PODS make it smaller.
 */
import { setMaxListeners } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { z } from 'zod'
import type { KubernetesApi } from '../src/drivers/kubernetes/api.ts'
import { machineIdOf, OURS } from '../src/drivers/kubernetes/names.ts'
import { anyObject, podObject } from '../src/drivers/kubernetes/objects.ts'
import { GPU_PRODUCT, startKubeCluster, type KubeCluster } from '../test/lab/kube-cluster.ts'
import { openKubeLine } from '../test/harness/kube-line.ts'
import { whyNoKubernetes } from '../test/lab/kube-programs.ts'
import { addSimulatedNodes, simulatedLabel, startKwok } from '../test/lab/kwok.ts'
import { waitFor } from '../test/harness/wait.ts'
import {
  call,
  cpuMs,
  inParallel,
  median,
  readKey,
  residentMb,
  startServer,
  type Bench,
  type Figure,
} from './harness.ts'
import { openAccounts } from './fixtures.ts'

const NODES = Number(process.env['BERTH_BENCH_NODES'] ?? 1_000)
const PODS = Number(process.env['BERTH_BENCH_PODS'] ?? 500)
const ACCOUNTS = 8
const WIDTH = 16
const LIMIT_MS = 20 * 60_000
const GRACE_SECONDS = 120
const IMAGE = { name: 'bench/image', tag: '1' }
const signal = new AbortController().signal
// Every call listens to it.
setMaxListeners(0, signal)

export const cluster: Bench = {
  name: 'cluster',
  about: `Kubernetes with ${NODES} simulated nodes × 8 GPUs, ${PODS} rentals`,
  run: async () => {
    const why = whyNoKubernetes()
    if (why !== undefined) throw new Error(`no Kubernetes here: ${why}`)
    const kube = await startKubeCluster({ nodeGraceSeconds: GRACE_SECONDS })
    const kwok = await startKwok(kube)
    try {
      await addSimulatedNodes(kube, NODES, GPU_PRODUCT)
      const ours = await throughBerth(kube)
      const [pods, alone] = await byClientAlone(kube)
      if (pods !== PODS) throw new Error(`Berth left ${pods} pods instead of ${PODS}`)
      return [...ours, ...alone]
    } finally {
      // kwok ends the pods of its nodes.
      try {
        await kube.close()
      } finally {
        await kwok.stop()
      }
    }
  },
}

async function throughBerth(kube: KubeCluster): Promise<Figure[]> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-bench-cluster-'))
  const line = await openKubeLine(kube.server, kube.keys)
  const { kubeconfig } = await kube.berthConfig({ server: line.url })
  const config = {
    name: 'bench',
    kubeconfig,
    region: 'bench-1',
    prices: { [GPU_PRODUCT]: '2.00' },
    nodeSelector: simulatedLabel,
    images: { pullPolicy: 'IfNotPresent' },
  }
  const file = path.join(folder, 'clusters.json')
  await writeFile(file, JSON.stringify({ clusters: [config] }))
  const startedAt = performance.now()
  const server = await startServer({ BERTH_DRIVERS: 'kubernetes', BERTH_KUBERNETES: file })
  const database = new pg.Client({ connectionString: server.databaseUrl })
  try {
    await database.connect()
    const count = async (sql: string): Promise<number> => (await database.query<{ n: number }>(sql)).rows[0]?.n ?? 0
    const onSale = `select count(*)::integer as n from machine where status = 'node_ready'`
    await waitFor('every node to be on sale', async () => (await count(onSale)) === NODES, LIMIT_MS)
    const inventoryMs = performance.now() - startedAt
    const keys = await openAccounts(server, readKey(server, 'operator'), ACCOUNTS)
    const [callsBefore, cpuBefore, orderedAt] = [line.received, cpuMs(server.pid), performance.now()]
    const orders = Array.from({ length: PODS }, (_, n) => n)
    const createMs = await inParallel(orders, WIDTH, (n) => order(server.url, keys[n % keys.length] ?? '', n))
    const running = `select count(*)::integer as n from rental where status = 'Running'`
    await waitFor('every rental to run', async () => (await count(running)) === PODS, LIMIT_MS)
    const allMs = performance.now() - orderedAt
    const { rows } = await database.query<{ ms: number }>(
      'select extract(epoch from started_at - created_at)::float8 * 1000 as ms from rental',
    )
    return [
      { name: `${NODES} nodes on sale after the start`, value: inventoryMs / 1_000, unit: 's' },
      { name: 'claims a second', value: (PODS * 1_000) / createMs, unit: '/s' },
      { name: 'create to Running, median', value: median(rows.map(({ ms }) => ms)) / 1_000, unit: 's' },
      { name: `all ${PODS} Running after`, value: allMs / 1_000, unit: 's' },
      { name: 'API calls a rental', value: (line.received - callsBefore) / PODS, unit: '' },
      { name: 'CPU of the server a rental', value: (cpuMs(server.pid) - cpuBefore) / PODS, unit: 'ms' },
      { name: 'resident memory of the server', value: residentMb(server.pid), unit: 'MB' },
    ]
  } finally {
    await database.end()
    await server.stop()
    await line.close()
    await rm(folder, { recursive: true, force: true })
  }
}

async function order(url: string, key: string, n: number): Promise<void> {
  const node = machineIdOf('bench', `gpu-${String(n % NODES).padStart(5, '0')}`)
  const body = { cluster_name: 'bench', node_name: node, gpu_count: 1, image: IMAGE }
  const reply = await call(url, key, 'POST', '/v1/marketplace/instances/create', body)
  if (reply.status !== 200) throw new Error(`unexpected answer ${reply.status}: ${JSON.stringify(reply.body)}`)
}

const copied = z.looseObject({
  metadata: z.looseObject({ name: z.string(), namespace: z.string() }),
  spec: z.looseObject({}),
})

/** Removes the pods that Berth made, and makes them once more under other names. Returns how many, and the figures. */
async function byClientAlone({ admin }: KubeCluster): Promise<[number, Figure[]]> {
  const query = { labelSelector: OURS }
  const { items } = await admin.list('/api/v1/pods', copied, { query, signal })
  // The nodes are to be as empty as they were.
  await inParallel(items, WIDTH, async ({ metadata }) => {
    await admin.delete(`/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}`, { signal })
  })
  const left = async (): Promise<number> => (await admin.list('/api/v1/pods', copied, { query, signal })).items.length
  await waitFor("Berth's pods to be gone", async () => (await left()) === 0, LIMIT_MS)
  const namespace = 'bench-alone'
  await admin.create('/api/v1/namespaces', { metadata: { name: namespace } }, anyObject, { signal })
  await waitFor('the service account of the namespace', () =>
    admin.find(`/api/v1/namespaces/${namespace}/serviceaccounts/default`, anyObject, { signal }),
  )
  const pods = items.map(({ spec }, n) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: `alone-${n}`, namespace },
    // The scheduler chooses the node again, by the same rule.
    spec: { ...spec, nodeName: undefined },
  }))
  const startedAt = performance.now()
  const at = `/api/v1/namespaces/${namespace}/pods`
  const createMs = await inParallel(pods, WIDTH, async (pod) => {
    await admin.create(at, pod, anyObject, { signal })
  })
  await waitFor('every pod to run', async () => (await runningIn(admin, at)) === pods.length, LIMIT_MS)
  const against = 'the same pods with the client alone, no money, no claims'
  return [
    pods.length,
    [
      { name: 'client alone: creates a second', value: (pods.length * 1_000) / createMs, unit: '/s', against },
      { name: 'client alone: all Running after', value: (performance.now() - startedAt) / 1_000, unit: 's', against },
    ],
  ]
}

async function runningIn(admin: KubernetesApi, at: string): Promise<number> {
  const { items } = await admin.list(at, podObject, { signal })
  return items.filter(({ status }) => status?.phase === 'Running').length
}
