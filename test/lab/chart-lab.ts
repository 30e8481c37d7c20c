/**
 * Berth installed with its chart on a real cluster: its own image, imported into the node, and a PostgreSQL outside the
 * cluster. NetworkPolicies are enforced, and the namespace enforces the Pod Security level `restricted`.
 */
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { emptyDatabase } from '../harness/database.ts'
import { forwardDatabase } from '../harness/forward.ts'
import { chart, runProgram } from './helm.ts'
import { testImage } from './image.ts'
import { succeed } from '../harness/journey.ts'
import { GPU_PRODUCT, startKubeCluster, type KubeCluster } from './kube-cluster.ts'
import { removeFolder } from '../harness/leftover.ts'
import type { MachineServer } from './machines.ts'
import { caller, type Call } from '../harness/server.ts'

export const NAMESPACE = 'berth-system'
export const RELEASE = 'berth'
export const NODE_PORT = 30_080
/** Volumes for two servers, a gateway and a trial. */
const VOLUMES = 4

export interface KubeItem {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly uid: string }
  // The kinds differ; `expect` is the type check.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly spec: any
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly status: any
}

export interface ChartLab {
  readonly cluster: KubeCluster
  readonly databaseUrl: string
  /** The Service, from outside the cluster. */
  readonly url: string
  /** Places a file in the volume of each pod; returns its path there. */
  addFile(name: string, write: (file: string) => Promise<unknown>): Promise<string>
  /** With the chart's values for the lab; `more` goes over them. */
  helm(command: string, more?: object, ...flags: string[]): Promise<string>
  kubectl(args: readonly string[], input?: object): Promise<string>
  /** The items of a `kubectl get`. */
  get(what: string): Promise<KubeItem[]>
  close(): Promise<void>
}

export async function startChartLab(): Promise<ChartLab> {
  const undo: Array<() => Promise<unknown>> = []
  const close = async (): Promise<void> => {
    const failures: unknown[] = []
    for (const step of undo.splice(0).toReversed()) await step().catch((error: unknown) => failures.push(error))
    if (failures.length > 0) throw new AggregateError(failures, 'the lab was not taken down in whole')
  }
  try {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-chart-'))
    undo.push(() => removeFolder(folder))
    const database = await emptyDatabase()
    undo.push(() => database.drop())
    const [image, cluster] = await Promise.all([testImage(), startKubeCluster({ hasServices: true })])
    undo.push(() => cluster.close())
    await cluster.enforcePolicies()
    const forward = await forwardDatabase(cluster.network.bridgeAddress, database.url)
    undo.push(async () => forward.close())
    await cluster.node.importImage(image.file)
    const kubectl = (args: readonly string[], input?: object): Promise<string> =>
      runProgram('kubectl', ['--kubeconfig', cluster.adminFile, ...args], input && JSON.stringify(input))
    await prepareNamespace(kubectl, forward.url)
    for (const volume of await localVolumes(cluster, folder)) await kubectl(['apply', '-f', '-'], volume)
    let files = 0
    return {
      cluster,
      databaseUrl: database.url,
      url: `http://${cluster.node.address}:${NODE_PORT}`,
      kubectl,
      addFile: async (name, write) => {
        for (const volume of volumesIn(folder)) await write(path.join(volume, name))
        return `/data/${name}`
      },
      helm: async (command, more = {}, ...flags) => {
        const values = ['base', 'more'].map((name) => path.join(folder, `${(files += 1)}-${name}.json`))
        await writeFile(values[0] ?? '', JSON.stringify(labValues(cluster)))
        await writeFile(values[1] ?? '', JSON.stringify(more))
        const where = ['--kubeconfig', cluster.adminFile, '--namespace', NAMESPACE]
        const given = values.flatMap((file) => ['--values', file])
        return runProgram('helm', [command, RELEASE, chart, ...where, ...given, ...flags])
      },
      get: async (what) => {
        const text = await kubectl(['-n', NAMESPACE, 'get', ...what.split(' '), '-o', 'json'])
        return (JSON.parse(text) as { items: KubeItem[] }).items
      },
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

function volumesIn(folder: string): string[] {
  return Array.from({ length: VOLUMES }, (_, n) => path.join(folder, `volume-${n}`))
}

/** What an operator does first, as in docs/kubernetes.md. */
async function prepareNamespace(kubectl: ChartLab['kubectl'], databaseUrl: string): Promise<void> {
  const secret = (name: string, value: string): Promise<string> =>
    kubectl(['-n', NAMESPACE, 'create', 'secret', 'generic', name, `--from-literal=${value}`])
  await kubectl(['create', 'namespace', NAMESPACE])
  await kubectl(['label', 'namespace', NAMESPACE, 'pod-security.kubernetes.io/enforce=restricted'])
  await secret('berth-db', `url=${databaseUrl}`)
  await secret('berth-key', 'key=a secret key for the chart in a test')
}

async function localVolumes(cluster: KubeCluster, folder: string): Promise<object[]> {
  const volumes = volumesIn(folder)
  for (const volume of volumes) await mkdir(volume)
  const nodes = [{ key: 'kubernetes.io/hostname', operator: 'In', values: [cluster.node.name] }]
  return volumes.map((volume, n) => ({
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: `chart-${n}` },
    spec: {
      capacity: { storage: '10Gi' },
      accessModes: ['ReadWriteOnce'],
      local: { path: volume },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: nodes }] } },
    },
  }))
}

function labValues({ registry }: KubeCluster): object {
  const resources = { requests: { cpu: '50m', memory: '128Mi' }, limits: { memory: '2Gi' } }
  return {
    database: { secret: 'berth-db', connections: 6 },
    secretKey: { secret: 'berth-key' },
    server: { replicas: 2, resources },
    gateway: { enabled: true, replicas: 1, resources },
    drainSeconds: 5,
    finishSeconds: 30,
    settings: {
      BERTH_DEFAULT_MODELS: 'embedded',
      BERTH_LOCAL_ENGINES: 'false',
      BERTH_ALLOW_PRIVATE_ADDRESSES: 'true',
      BERTH_SELL_SIMULATED: 'true',
      BERTH_LOG_LEVEL: 'info',
    },
    service: { type: 'NodePort', nodePort: NODE_PORT },
    relay: { type: 'ClusterIP', ports: { from: 30_000, to: 30_003 }, publicHost: '127.0.0.1' },
    kubernetes: {
      enabled: true,
      clusters: [
        {
          name: 'here',
          region: 'lab-1',
          prices: { [GPU_PRODUCT]: '0.40' },
          simulatedGpus: true,
          graceSeconds: 1,
          images: { allowedRegistries: [registry.address] },
        },
      ],
    },
  }
}

/** The installed Berth, for the helpers of machines. */
export function remoteServer(url: string, operatorKey: string): MachineServer {
  const operator = caller(url, operatorKey)
  const account = async ({ usd = '100' }: { usd?: string } = {}): Promise<{ id: string; key: string; call: Call }> => {
    const made = await succeed(operator, 'POST', '/v2/operator/accounts', {
      name: 'Ada',
      ownerEmail: 'ada@example.test',
    })
    const { id } = made.account
    await succeed(operator, 'POST', `/v2/operator/accounts/${id}/credit`, { amountUsd: usd, reason: 'for the test' })
    return { id, key: made.key, call: caller(url, made.key) }
  }
  return { url, operator, anonymous: caller(url, null), account }
}
