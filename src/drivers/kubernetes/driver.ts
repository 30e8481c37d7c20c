/**
 * Kubernetes clusters: each node with GPUs is a machine of the marketplace, each rental a bare pod on the node that was
 * claimed. The cluster does the rest: images, kubelets, networks.
 *
 * One driver serves all clusters, so a cluster that does not answer must not hide the others: its machines are
 * withdrawn from sale, and its rentals are listed from the database as unreachable. The list is an error only if no
 * cluster answers.
 */
import type { Clock, Instant } from '../../base/instant.ts'
import { signalWithin } from '../../base/signal-within.ts'
import type { Driver, DriverTraits, DriverMachine, InventoryMachine } from '../driver.ts'
import { askClusters, type Warn } from './answering.ts'
import { checkCluster } from './check.ts'
import type { Cluster } from './cluster.ts'
import { createPod } from './create.ts'
import { createVirtualMachine } from './create-virtual-machine.ts'
import { deleteParts, destroyPod } from './destroy.ts'
import { measureCluster } from './measure.ts'
import { externalIdOf, namespaceOf, podNameOf, readExternalId } from './names.ts'
import { GpuMemory } from './gpu-memory.ts'
import { offerOf } from './node-offer.ts'
import type { PodObject } from './objects.ts'
import { showPod } from './pod-state.ts'
import { reportCluster } from './report.ts'
import { openStream } from './streams.ts'
import { listVirtualMachines } from './list-virtual-machines.ts'
import { kubernetesVolumes } from './volumes.ts'
import { isDownloading, readProgress } from './weights.ts'
import { tidyWeights } from './weights-claim.ts'
import type { KnownOrder, KubernetesWorld } from './world.ts'

const CALL_TIMEOUT_MS = 30_000
/** Creates run in parallel, since each mostly waits for the scheduler. */
const CREATES_AT_ONCE = 64
/** The number of logs that are read for one list. */
const MAX_PROGRESS = 20
const PROGRESS_MS = 2_000

export interface KubernetesOptions {
  readonly clusters: readonly Cluster[]
  readonly world: KubernetesWorld
  readonly clock: Clock
  /** The public address of the relay, for TCP ports. */
  readonly relayHost: string
  readonly warn: Warn
}

export function kubernetesDriver(
  options: KubernetesOptions,
): Driver & Required<Pick<Driver, 'streams' | 'clusters' | 'volumes'>> {
  const { clusters, world, warn } = options
  const memories = new Map(clusters.map((cluster) => [cluster, new GpuMemory(cluster, warn)]))
  const memoryOf = (cluster: Cluster): GpuMemory => memories.get(cluster) ?? new GpuMemory(cluster, warn)
  return {
    id: 'kubernetes',
    traits: traitsOf(clusters),
    listLagMs: 0,
    callTimeoutMs: CALL_TIMEOUT_MS,
    createsAtOnce: CREATES_AT_ONCE,
    volumes: kubernetesVolumes(clusters, world, warn),
    streams: {
      machines: () => clusters.flatMap((cluster) => cluster.machineIds()),
      open: (request, signal) => openStream(clusters, request, signal),
    },
    clusters: {
      list: (signal) => Promise.all(clusters.map((cluster) => reportCluster(cluster, memoryOf(cluster), signal))),
      check: async (name, image, signal) => {
        const cluster = clusters.find(({ config }) => config.name === name)
        return cluster === undefined ? undefined : checkCluster(cluster, image, signal)
      },
    },

    async measure(signal) {
      signal.throwIfAborted()
      const answers = await askClusters(clusters, (cluster) => measureCluster(cluster, warn, signal), warn)
      return answers.flatMap(({ value }) => value)
    },
    async check(signal) {
      signal.throwIfAborted()
      await askClusters(clusters, (cluster) => cluster.version(signal), warn)
    },
    async inventory(signal) {
      signal.throwIfAborted()
      const answers = await askClusters(clusters, (cluster) => machinesOf(cluster, memoryOf(cluster), signal), warn)
      return answers.flatMap(({ value }) => value)
    },
    async create(tag, spec, signal) {
      signal.throwIfAborted()
      const cluster = clusters.find(({ config }) => config.name === spec.clusterName)
      if (cluster?.config.virtualMachines !== undefined) return createVirtualMachine(cluster, tag, spec, world, signal)
      if (cluster !== undefined) return createPod(cluster, tag, spec, options, signal)
      return { kind: 'refused', reason: 'no_capacity', message: noCluster(spec.clusterName) }
    },
    async destroy(externalId, signal) {
      signal.throwIfAborted()
      const address = readExternalId(externalId)
      const cluster = clusters.find(({ config }) => config.name === address?.cluster)
      // An id that is not ours stands for nothing. An id of a cluster that was removed from the file may stand for a
      // pod.
      if (address === undefined) return
      if (cluster === undefined) throw new Error(noCluster(address.cluster))
      await destroyPod(cluster, address, world, warn, signal)
    },
    discard: (tag, signal) => discardParts(clusters, world, tag, signal),
    async tidy(signal) {
      signal.throwIfAborted()
      await askClusters(clusters, (cluster) => tidyWeights(cluster, options, signal), warn)
    },
    list: (tagPrefix, signal) =>
      listMachines(clusters, (cluster) => listPods(cluster, memoryOf(cluster), tagPrefix, options, signal), {
        tagPrefix,
        world,
        warn,
        signal,
      }),
  }
}

function noCluster(name: string): string {
  return `This server has no cluster named ${name} any more.`
}

async function discardParts(
  clusters: readonly Cluster[],
  world: KubernetesOptions['world'],
  tag: string,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted()
  const order = (await world.listOrders(tag)).find((one) => one.tag === tag)
  const cluster = clusters.find(({ config }) => config.name === order?.clusterName)
  if (order === undefined || cluster === undefined) return
  const namespace = namespaceOf(cluster.config.namespacePrefix, order.accountId)
  const address = { cluster: order.clusterName, namespace, name: podNameOf(tag) }
  await deleteParts(cluster.api, cluster.config, address, signal)
}

/** Orders of clusters that do not answer are listed as unreachable. */
async function listMachines(
  clusters: readonly Cluster[],
  listOne: (cluster: Cluster) => Promise<DriverMachine[]>,
  {
    tagPrefix,
    world,
    warn,
    signal,
  }: Pick<KubernetesOptions, 'world' | 'warn'> & { readonly tagPrefix: string; readonly signal: AbortSignal },
): Promise<DriverMachine[]> {
  signal.throwIfAborted()
  const answers = await askClusters(clusters, listOne, warn)
  const names = new Set(answers.map(({ cluster }) => cluster.config.name))
  const orders = await world.listOrders(tagPrefix)
  const machines = answers.flatMap(({ value }) => value)
  return [...machines, ...orders.flatMap((order) => unreachable(order, clusters, names, tagPrefix) ?? [])]
}

async function machinesOf(cluster: Cluster, memory: GpuMemory, signal: AbortSignal): Promise<InventoryMachine[]> {
  // A watch may not have noticed yet that the server is down.
  await cluster.version(signal)
  return (await memory.nodes(signal)).flatMap(({ node, use }) => {
    const offer = offerOf(node, use, cluster.config)
    return offer.kind === 'offer' ? [offer.machine] : []
  })
}

async function listPods(
  cluster: Cluster,
  memory: GpuMemory,
  tagPrefix: string,
  { clock, relayHost, warn, world }: KubernetesOptions,
  signal: AbortSignal,
): Promise<DriverMachine[]> {
  const askedAt: Instant = clock.now()
  if (cluster.config.virtualMachines !== undefined) {
    const machines = await listVirtualMachines(cluster, { tagPrefix, now: askedAt, relayHost }, signal)
    cluster.listedAt = askedAt
    return machines
  }
  const pods = (await cluster.pods(signal)).filter(({ tag }) => tag.startsWith(tagPrefix))
  const nodes = new Set(pods.flatMap(({ pod }) => pod.spec?.nodeName ?? []))
  const reach = await cluster.reach([...nodes], signal)
  const progress = await progressOf(cluster, pods, warn, signal)
  // Orders are read after the pods, so that the list still has the pod of an order that ends now.
  const orders = (await world.listOrders(tagPrefix)).filter(({ clusterName }) => clusterName === cluster.config.name)
  const ended = orders.filter(({ tag, isEnding }) => isEnding && !pods.some((one) => one.tag === tag))
  const pending = await memory.pending(ended, signal)
  cluster.listedAt = askedAt
  const machines = pods.map(({ pod, tag, externalId }) => {
    const nodeReach = reach.get(pod.spec?.nodeName ?? '') ?? { isReady: true }
    return showPod(pod, { externalId, tag }, { reach: nodeReach, now: askedAt, relayHost, progress: progress.get(tag) })
  })
  return [...machines, ...pending]
}

/** Returns the progress of downloads of weights, by tag. A pod whose log cannot be read still counts as starting. */
async function progressOf(
  cluster: Cluster,
  pods: ReadonlyArray<{ readonly pod: PodObject; readonly tag: string; readonly externalId: string }>,
  warn: Warn,
  signal: AbortSignal,
): Promise<Map<string, string>> {
  const progressByTag = new Map<string, string>()
  const downloading = pods.filter(({ pod }) => isDownloading(pod)).slice(0, MAX_PROGRESS)
  await Promise.all(
    downloading.map(async ({ tag, externalId }) => {
      const address = readExternalId(externalId)
      if (address === undefined) return
      const ending = signalWithin(signal, PROGRESS_MS)
      try {
        const line = await readProgress(cluster.api, address, ending)
        if (line !== undefined) progressByTag.set(tag, line)
      } catch (error) {
        warn(error, `the download of ${tag} cannot be shown`)
      }
    }),
  )
  return progressByTag
}

/**
 * Shows an order at a cluster that does not answer. An order whose create may still be in flight is not listed; if the
 * caller asked for that order alone, this throws, since its outcome is unknown.
 */
function unreachable(
  order: KnownOrder,
  clusters: readonly Cluster[],
  answered: ReadonlySet<string>,
  tagPrefix: string,
): DriverMachine | undefined {
  const { tag, machineId, accountId, clusterName } = order
  if (answered.has(clusterName)) return undefined
  const cluster = clusters.find(({ config }) => config.name === clusterName)
  if (order.externalId === null && !order.isEnding) {
    if (tagPrefix === tag) throw new Error(`Cluster ${clusterName} does not answer.`)
    return undefined
  }
  const address = {
    cluster: clusterName,
    namespace: namespaceOf(cluster?.config.namespacePrefix ?? 'berth', accountId),
    name: podNameOf(tag),
  }
  return {
    tag,
    externalId: order.externalId ?? externalIdOf(address),
    state: 'unreachable',
    message: `Cluster ${clusterName} does not answer, so the state of ${machineId} is not known.`,
    ...(cluster?.listedAt === undefined ? {} : { seenAt: cluster.listedAt }),
  }
}

function traitsOf(clusters: readonly Cluster[]): DriverTraits {
  return {
    simulated: false,
    elastic: false,
    ssh: false,
    logs: true,
    terminal: true,
    metrics: true,
    // GPUs may be measured, but connections to a pod are not.
    blindToUse: true,
    ports: 'relayed',
    power: { stop: [], reboot: [] },
    downloads: {
      clusters: clusters
        .filter(({ config }) => config.serving !== undefined && config.virtualMachines === undefined)
        .map(({ config }) => config.name),
    },
  }
}
