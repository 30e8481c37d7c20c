/**
 * Kills the server and its PostgreSQL (SIGKILL, the whole process tree) at random moments while it creates and removes
 * pods on a real cluster. No pod may be lost, left over or made twice, and no GPU may have two tenants.
 */
import { randomBytes, randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdtemp, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { machineIdOf, ORDER_ANNOTATION, OURS } from '../src/drivers/kubernetes/names.ts'
import { anyObject, podObject } from '../src/drivers/kubernetes/objects.ts'
import { readNote } from '../src/drivers/kubernetes/order-note.ts'
import { GPU_PRODUCT, startKubeCluster, type KubeCluster } from './lab/kube-cluster.ts'
import { whyNoKubernetes } from './lab/kube-programs.ts'
import { removeFolder } from './harness/leftover.ts'
import { startServerProcess, type ServerProcess } from './lab/process.ts'
import type { Reply } from './harness/exchange.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('docker', 'kubernetes', 'build')

const KILLS = Number.parseInt(process.env['BERTH_TEST_KUBERNETES_KILLS'] ?? '10', 10)
const WORKERS = 3
const START_MS = 60 * 60_000
const MINUTE_MS = 60_000
const AWAY_MS = 100
const signal = new AbortController().signal
const missing = whyNoKubernetes()
const skipped = missing === undefined ? '' : ` (skipped: ${missing})`

describe.skipIf(missing !== undefined)(`${KILLS} kills while pods come and go${skipped}`, () => {
  let cluster: KubeCluster
  let folder: string
  let server: ServerProcess
  let env: Record<string, string>
  let keys: { demo: string; operator: string }
  let isOver = false
  /** Names of the rentals that customers were told of. */
  const created = new Set<string>()

  beforeAll(async () => {
    cluster = await startKubeCluster()
    folder = await mkdtemp(path.join(os.tmpdir(), 'berth-kube-crash-'))
    const { kubeconfig } = await cluster.berthConfig()
    const { name, tag } = cluster.registry.images.busybox
    const lab = {
      name: 'lab',
      kubeconfig,
      region: 'lab-1',
      prices: { [GPU_PRODUCT]: '0.40' },
      simulatedGpus: true,
      graceSeconds: 1,
      images: {
        allowedRegistries: [cluster.registry.address],
        default: `${name}:${tag}`,
        pullPolicy: 'IfNotPresent',
      },
    }
    const file = path.join(folder, 'clusters.json')
    await writeFile(file, JSON.stringify({ clusters: [lab] }))
    env = { BERTH_DATA_DIR: path.join(folder, 'data'), BERTH_DRIVERS: 'kubernetes', BERTH_KUBERNETES: file }
    server = await startServerProcess(env)
    const keyOf = (kind: string): string => readFileSync(path.join(folder, 'data', `${kind}.key`), 'utf8').trim()
    keys = { demo: keyOf('demo'), operator: keyOf('operator') }
  }, START_MS)
  afterAll(async () => {
    await server?.killTree()
    await cluster?.close()
    await removeFolder(folder)
  })

  test('no GPU has two pods at any time, and work goes on between kills', { timeout: 15 * MINUTE_MS }, async () => {
    await waitFor(
      'the node to be on sale',
      async () => (await call(keys.operator, 'GET', machines)).body.machines.length > 0,
    )
    const working = Array.from({ length: WORKERS }, rentAndEnd)
    for (let kill = 0; kill < KILLS; kill += 1) {
      const before = created.size
      // The kill happens at a random time on purpose: this is the only delay in the suite.
      await new Promise((resolve) => setTimeout(resolve, randomInt(50, 3_000)))
      if (kill % 4 === 3) await waitFor('an order', () => created.size > before)
      await server.killTree()
      expect(await sharedGpus()).toEqual([])
      server = await startServerProcess(env)
    }
    isOver = true
    await Promise.all(working)
    expect(created.size).toBeGreaterThanOrEqual(KILLS / 4)
  })

  test(
    'after all rentals end, no pod and no secret is left, and every GPU is free',
    { timeout: 6 * MINUTE_MS },
    async () => {
      const known = new Set((await rentals()).map(({ name }) => name))
      expect([...created].filter((name) => !known.has(name))).toEqual([])
      await waitFor(
        'all rentals to end',
        async () => {
          const left = (await rentals()).filter(({ status }) => status !== 'Terminated')
          for (const { name, status } of left) if (status !== 'Terminating') await end(name)
          return left.length === 0
        },
        3 * MINUTE_MS,
      )
      expect(await ourPods()).toEqual([])
      const query = { labelSelector: OURS }
      // The cluster itself deletes them after their pods.
      await waitFor('all secrets to go', async () => {
        const secrets = await cluster.admin.list('/api/v1/secrets', anyObject, { query, signal })
        return secrets.items.length === 0
      })
      const { body } = await call(keys.operator, 'GET', machines)
      expect(body.machines).toMatchObject([{ gpusInUse: 0 }])
    },
  )

  test('the ledger adds up, and the engine has what the database says', async () => {
    const { body } = await call(keys.operator, 'GET', '/v2/operator/ledger/verify')
    expect([body.ok, body.findings]).toEqual([true, []])
    const audit = await call(keys.operator, 'GET', '/v2/operator/engines/audit')
    expect(audit.body).toMatchObject({ ok: true, engines: [{ machines: 0 }] })
  })

  const machines = '/v2/operator/machines?limit=10'
  const instances = '/v1/marketplace/instances'

  async function rentAndEnd(): Promise<void> {
    while (!isOver) {
      const order = {
        cluster_name: 'lab',
        node_name: machineIdOf('lab', cluster.node.name),
        gpu_count: 1,
        command: ['sleep', '1000'],
      }
      const key = randomBytes(8).toString('hex')
      const made = await untilAnswered('POST', `${instances}/create`, order, { 'Idempotency-Key': key })
      const name = made?.body.instance_id as string | undefined
      if (name === undefined) continue
      created.add(name)
      // At any stage: before its pod exists, while it starts, while it runs.
      await new Promise((resolve) => setTimeout(resolve, randomInt(0, 2_500)))
      await untilAnswered('POST', `${instances}/terminate`, { id: name })
    }
  }

  /** Repeats a request while the server is away. undefined: the suite is over. */
  async function untilAnswered(
    method: string,
    pathname: string,
    body: object,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Reply | undefined> {
    while (!isOver) {
      const reply = await call(keys.demo, method, pathname, body, headers).catch(() => undefined)
      if (reply !== undefined && reply.status < 500) return reply
      await new Promise((resolve) => setTimeout(resolve, AWAY_MS))
    }
    return undefined
  }

  async function end(name: string): Promise<void> {
    await call(keys.demo, 'POST', `${instances}/terminate`, { id: name })
  }

  async function rentals(): Promise<Array<{ name: string; status: string }>> {
    return (await call(keys.operator, 'GET', '/v2/operator/rentals?limit=1000')).body.rentals
  }

  async function ourPods() {
    return (await cluster.admin.list('/api/v1/pods', podObject, { query: { labelSelector: OURS }, signal })).items
  }

  /** GPU indexes that more than one pod has. A pod has its GPUs until it is gone. */
  async function sharedGpus(): Promise<number[]> {
    const pods = (await ourPods()).filter(({ status }) => status?.phase !== 'Failed' && status?.phase !== 'Succeeded')
    const taken = pods.flatMap(({ metadata }) => readNote(metadata.annotations?.[ORDER_ANNOTATION])?.gpuIndexes ?? [])
    return taken.filter((index, n) => taken.indexOf(index) !== n)
  }

  async function call(
    key: string,
    method: string,
    pathname: string,
    body?: unknown,
    more: Readonly<Record<string, string>> = {},
  ): Promise<Reply> {
    const json = body === undefined ? {} : { 'Content-Type': 'application/json' }
    const response = await fetch(`${server.url}${pathname}`, {
      method,
      headers: { Authorization: `Bearer ${key}`, ...json, ...more },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status: response.status, headers: response.headers, body: await response.json() }
  }
})
