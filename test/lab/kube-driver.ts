/** The driver of Kubernetes on a test cluster, through a line that a test can disturb, and without a database. */
import { systemClock, type Clock } from '../../src/base/instant.ts'
import { emptyWorkload, programOf } from '../../src/domain/workload.ts'
import type { Program } from '../../src/contract/agent.ts'
import type { RentalSpec } from '../../src/domain/rental.ts'
import { sampleSpec } from '../../src/drivers/conformance-bench.ts'
import type { Driver, VolumeDriver } from '../../src/drivers/driver.ts'
import { Cluster } from '../../src/drivers/kubernetes/cluster.ts'
import { parseClusters, type ClusterConfig } from '../../src/drivers/kubernetes/config.ts'
import { kubernetesDriver } from '../../src/drivers/kubernetes/driver.ts'
import { readKubeconfig } from '../../src/drivers/kubernetes/kubeconfig.ts'
import { machineIdOf, OURS, podPath } from '../../src/drivers/kubernetes/names.ts'
import { anyObject, podObject } from '../../src/drivers/kubernetes/objects.ts'
import type { KubernetesWorld } from '../../src/drivers/kubernetes/world.ts'
import { GPU_PRODUCT, storageClasses, type KubeCluster } from './kube-cluster.ts'
import { openKubeLine, type KubeLine } from '../harness/kube-line.ts'
import { waitFor } from '../harness/wait.ts'

const signal = new AbortController().signal
export const ACCOUNT = 'acc_Conformance'

export const isPodCreate = (asked: string): boolean => /^POST \/api\/v1\/namespaces\/[^/]+\/pods$/.test(asked)
export const isPodDelete = (asked: string): boolean => /^DELETE \/api\/v1\/namespaces\/[^/]+\/pods\//.test(asked)
const CLAIMS = 'persistentvolumeclaims'
export const isClaimCreate = (asked: string): boolean => asked.startsWith('POST ') && asked.endsWith(`/${CLAIMS}`)
export const isClaimDelete = (asked: string): boolean => asked.startsWith('DELETE ') && asked.includes(`/${CLAIMS}/`)

export interface OpenDriver {
  readonly driver: Driver & { readonly volumes: VolumeDriver }
  readonly cluster: Cluster
  readonly world: KubernetesWorld
  readonly line: KubeLine
  readonly config: ClusterConfig
  readonly logs: Map<string, string>
  close(): Promise<void>
}

interface OrdersOf {
  /** What all orders run. */
  readonly program?: Partial<Program>
  readonly account?: string
  /** Lets pods download weights. */
  readonly downloadAs?: string
  readonly clock?: Clock
}

/** `settings`: of the cluster, beside those that every test needs. */
export async function openDriver(
  lab: KubeCluster,
  settings: Readonly<Record<string, unknown>> = {},
  { program = {}, account = ACCOUNT, clock = systemClock, downloadAs }: OrdersOf = {},
): Promise<OpenDriver> {
  const line = await openKubeLine(lab.server, lab.keys)
  const { kubeconfig } = await lab.berthConfig({ server: line.url })
  const read = parseClusters(
    JSON.stringify({
      clusters: [
        {
          name: 'lab',
          kubeconfig,
          region: 'lab-1',
          prices: { [GPU_PRODUCT]: '2.00' },
          simulatedGpus: true,
          graceSeconds: 1,
          images: { allowedRegistries: [lab.registry.address], pullPolicy: 'IfNotPresent' },
          storage: { class: storageClasses.now },
          ...settings,
        },
      ],
    }),
    '/',
  )
  const [config] = read.kind === 'read' ? read.clusters : []
  if (config === undefined) throw new Error(JSON.stringify(read))
  const logs = new Map<string, string>()
  const orders = new Map<string, RentalSpec>()
  const world: KubernetesWorld = {
    orderOf: async (tag) => ({
      accountId: account,
      program: { ...programOf(orders.get(tag)?.workload ?? emptyWorkload), ...program },
      ...(downloadAs === undefined ? {} : { downloadAs }),
    }),
    listOrders: async () => [],
    accountOfVolume: async () => account,
    listVolumes: async () => [],
    openPorts: async (_tag, ports) => new Map(ports.map((port) => [port, 40_000 + port])),
    saveLog: async (tag, text) => void logs.set(tag, text),
  }
  const opened = new Cluster({
    config,
    access: await readKubeconfig(kubeconfig),
    tagPrefix: 'berth-',
    changed: () => {},
    warn: () => {},
  })
  const driver = kubernetesDriver({
    clusters: [opened],
    world,
    clock,
    relayHost: '127.0.0.1',
    warn: () => {},
  })
  return {
    driver: {
      ...driver,
      create: (tag, spec, given) => {
        orders.set(tag, spec)
        return driver.create(tag, spec, given)
      },
    },
    cluster: opened,
    world,
    line,
    config,
    logs,
    close: async () => {
      line.up()
      // What a test could not remove while its line was down.
      await waitFor('its pods to be gone', () => removePods(lab).then((left) => left === 0))
      await opened.close()
      await line.close()
    },
  }
}

export function orderOn(lab: KubeCluster, config: ClusterConfig, overrides: Partial<RentalSpec> = {}): RentalSpec {
  const { name, tag } = lab.registry.images.busybox
  return sampleSpec({
    kind: 'container',
    region: config.region,
    clusterName: config.name,
    gpuCount: 1,
    nodes: [{ machineId: machineIdOf(config.name, lab.node.name), gpuIndexes: [0] }],
    resources: { cpuModel: 'any', cpuCount: 0.1, ramGb: 0.1, storageGb: 1 },
    image: { name, tag },
    workload: { ...emptyWorkload, command: ['/bin/sleep', '100000'] },
    ...overrides,
  })
}

/** Simulates someone with all rights in the cluster. */
export async function removePods({ admin }: KubeCluster): Promise<number> {
  const { items } = await admin.list('/api/v1/pods', podObject, { query: { labelSelector: OURS }, signal })
  for (const { metadata } of items) {
    await admin.delete(podPath({ namespace: metadata.namespace ?? '', name: metadata.name }), { signal })
  }
  return items.length
}

export async function cordon({ admin, node }: KubeCluster, isClosed: boolean): Promise<void> {
  const body = {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: node.name },
    ...(isClosed ? { spec: { unschedulable: true } } : {}),
  }
  await admin.apply(`/api/v1/nodes/${node.name}`, body, anyObject, { signal })
}
