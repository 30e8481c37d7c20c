/**
 * Volumes as PersistentVolumeClaims, one each, in the namespace of their account. They outlive pods and are removed
 * only with the volume. A pod has its volumes from the start: Kubernetes cannot add a mount to an existing pod.
 *
 * As with machines, a cluster that does not answer hides no other: its volumes are listed from the database as not
 * ready, and cost nothing until it is back.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { DriverVolume, GrowOutcome, Near, VolumeDriver, VolumeOutcome } from '../driver.ts'
import { askClusters, type Warn } from './answering.ts'
import { ApiRefused, hasStatus } from './api.ts'
import { bindPod, bindPodName, claimNameOf, claimObject, storageQuantity } from './claim.ts'
import type { Cluster } from './cluster.ts'
import { externalIdOf, machineIdOf, MANAGED_LABEL, MANAGER, OURS, podPath, TAG_ANNOTATION } from './names.ts'
import { readExternalId, type PodAddress } from './names.ts'
import { anyObject, claimStatus, podObject, storageClassObject, type ClaimObject } from './objects.ts'
import { sentence } from './pod-state.ts'
import { parseQuantity } from './quantity.ts'
import { ensureNamespace } from './tenant-namespace.ts'
import type { KnownVolume, KubernetesWorld } from './world.ts'

/** After this time the outcome is unknown, and the next call continues with the same claim. */
const BIND_MS = 25_000
const POLL_MS = { first: 100, growth: 1.5, last: 1_000 } as const

export function claimPath({ namespace, name }: Pick<PodAddress, 'namespace' | 'name'>): string {
  return `/api/v1/namespaces/${namespace}/persistentvolumeclaims/${name}`
}

export function kubernetesVolumes(clusters: readonly Cluster[], world: KubernetesWorld, warn: Warn): VolumeDriver {
  const clusterOf = (address: PodAddress): Cluster => {
    const cluster = clusters.find(({ config }) => config.name === address.cluster)
    if (cluster === undefined) throw new Error(`This server has no cluster named ${address.cluster} any more.`)
    return cluster
  }
  return {
    serves: ['container'],
    attaches: [],
    isLocal: true,
    regions: 'own',
    clusterOf: (externalId) => readExternalId(externalId)?.cluster,

    async create(tag, spec, signal) {
      signal.throwIfAborted()
      const place = await placeOf(clusters, spec, signal)
      if (place === undefined) {
        return refused(
          'rejected_by_provider',
          'No cluster with a storage class is there. Order the volume for a machine.',
        )
      }
      return createClaim(place, tag, spec, world, signal)
    },
    async grow(externalId, sizeGb, signal) {
      signal.throwIfAborted()
      const address = readExternalId(externalId)
      if (address === undefined) return { kind: 'refused', message: 'There is no such volume.' }
      return growClaim(clusterOf(address), address, sizeGb, signal)
    },
    async destroy(externalId, signal) {
      signal.throwIfAborted()
      const address = readExternalId(externalId)
      if (address === undefined) return
      const { api } = clusterOf(address)
      const claim = await api.find(claimPath(address), anyObject, { signal })
      if (claim !== undefined && claim.metadata.labels?.[MANAGED_LABEL] !== MANAGER) {
        throw new Error(`Claim ${address.name} is not ours.`)
      }
      await removeBindPod(clusterOf(address), address, signal)
      await api.delete(claimPath(address), { signal })
    },
    async list(tagPrefix, signal) {
      signal.throwIfAborted()
      const answers = await askClusters(clusters, (cluster) => listClaims(cluster, tagPrefix, signal), warn)
      const answered = new Set(answers.map(({ cluster }) => cluster.config.name))
      const listed = answers.flatMap(({ value }) => value)
      if (answered.size === clusters.length) return listed
      const recorded = await world.listVolumes(tagPrefix)
      return [...listed, ...recorded.flatMap((volume) => unreachable(volume, clusters, answered, tagPrefix) ?? [])]
    },
    async attach(externalId, machineExternalId, signal) {
      signal.throwIfAborted()
      if (!(await isMounted(clusterOf, externalId, machineExternalId, signal))) {
        throw new Error('A pod cannot get a volume while it runs.')
      }
    },
    async detach(externalId, machineExternalId, signal) {
      signal.throwIfAborted()
      // The pod of an ended rental keeps its volumes until it is gone.
      const isFree = async () => !(await isMounted(clusterOf, externalId, machineExternalId, signal))
      await pollUntil(isFree, signal, 'The pod still has the volume.')
    },
  }
}

interface Place {
  readonly cluster: Cluster
  /** The node that will use the volume. undefined: any node. */
  readonly node: string | undefined
}

/**
 * Returns the cluster of the machine that will use the volume, else one of the region. undefined: no cluster with
 * storage.
 */
async function placeOf(
  clusters: readonly Cluster[],
  { near, region }: { near?: Near; region: string },
  signal: AbortSignal,
): Promise<Place | undefined> {
  const withStorage = clusters.filter(({ config }) => config.storage !== undefined)
  const inRegion = withStorage.find(({ config }) => config.region === region)
  if (near === undefined) return inRegion === undefined ? undefined : { cluster: inRegion, node: undefined }
  if (!('host' in near)) {
    const name = readExternalId('machine' in near ? near.machine : near.volume)?.cluster
    const cluster = withStorage.find(({ config }) => config.name === name)
    return cluster === undefined ? undefined : { cluster, node: undefined }
  }
  for (const cluster of withStorage.filter(({ config }) => near.host.startsWith(machineIdOf(config.name, '')))) {
    const node = await cluster.nodeOf(near.host, signal)
    if (node !== undefined) return { cluster, node: node.metadata.name }
  }
  return undefined
}

async function createClaim(
  { cluster, node }: Place,
  tag: string,
  { label, sizeGb }: { label: string; sizeGb: number },
  world: KubernetesWorld,
  signal: AbortSignal,
): Promise<VolumeOutcome> {
  const { api, config } = cluster
  const { storage } = config
  const accountId = await world.accountOfVolume(tag)
  if (accountId === undefined) throw new Error(`There is no volume with the tag ${tag}.`)
  if (storage === undefined) throw new Error(`Cluster ${config.name} has no storage class.`)
  const namespace = await ensureNamespace(api, config, accountId, signal)
  const address: PodAddress = { cluster: config.name, namespace, name: claimNameOf(tag) }
  try {
    const claim = claimObject({ tag, label, sizeGb, accountId, namespace, storage })
    await api.create(`/api/v1/namespaces/${namespace}/persistentvolumeclaims`, claim, anyObject, { signal })
  } catch (error) {
    const refusal = refusalOf(error)
    if (refusal !== undefined) return refusal
    if (!hasStatus(error, 409)) throw error
    await adoptClaim(cluster, address, tag, signal)
  }
  await bind(cluster, address, node, signal)
  return { kind: 'created', externalId: externalIdOf(address), vip: config.name }
}

/** Adopts the claim of an earlier call. */
async function adoptClaim({ api }: Cluster, address: PodAddress, tag: string, signal: AbortSignal): Promise<void> {
  const { metadata } = await api.get(claimPath(address), anyObject, { signal })
  if (metadata.annotations?.[TAG_ANNOTATION] !== tag) throw new Error(`Claim ${address.name} is not ours.`)
  if (metadata.deletionTimestamp !== undefined) throw new Error(`Claim ${address.name} is being removed.`)
}

/** Resolves once the storage exists. */
async function bind(cluster: Cluster, address: PodAddress, node: string | undefined, signal: AbortSignal) {
  const { api, config } = cluster
  const isBound = async (): Promise<boolean> => {
    const { status } = await api.get(claimPath(address), claimStatus, { signal })
    if (status?.phase === 'Lost') throw new Error(`The storage of claim ${address.name} is lost.`)
    return status?.phase === 'Bound'
  }
  if (await isBound()) return
  const { class: name } = config.storage ?? { class: '' }
  const storageClass = await api.find(`/apis/storage.k8s.io/v1/storageclasses/${name}`, storageClassObject, { signal })
  if (storageClass === undefined) throw new Error(`Cluster ${config.name} has no storage class ${name}.`)
  const waits = storageClass.volumeBindingMode === 'WaitForFirstConsumer'
  if (waits) {
    const pod = bindPod(address.name, address.namespace, node, config)
    await api.create(`/api/v1/namespaces/${address.namespace}/pods`, pod, anyObject, { signal }).catch((error) => {
      if (!hasStatus(error, 409)) throw error
    })
  }
  await pollUntil(isBound, signal, `The storage class ${name} has not created the storage yet.`)
  if (waits) await removeBindPod(cluster, address, signal)
}

async function removeBindPod({ api }: Cluster, { namespace, name }: PodAddress, signal: AbortSignal): Promise<void> {
  await api.delete(podPath({ namespace, name: bindPodName(name) }), { signal })
}

async function growClaim(
  { api }: Cluster,
  address: PodAddress,
  sizeGb: number,
  signal: AbortSignal,
): Promise<GrowOutcome> {
  const claim = await api.find(claimPath(address), claimStatus, { signal })
  if (claim === undefined) return { kind: 'refused', message: 'There is no such volume.' }
  const name = claim.spec?.storageClassName ?? ''
  const storageClass = await api.find(`/apis/storage.k8s.io/v1/storageclasses/${name}`, storageClassObject, { signal })
  if (storageClass?.allowVolumeExpansion !== true) {
    return { kind: 'refused', message: `The storage class ${name} does not let volumes grow.` }
  }
  const neededBytes = parseQuantity(storageQuantity(sizeGb)) ?? 0
  const currentSize = claim.spec?.resources?.requests?.['storage']
  const request = (storage: string | undefined) =>
    api.apply(claimPath(address), claimPatch(address, storage), anyObject, { signal })
  if ((parseQuantity(currentSize) ?? 0) < neededBytes) {
    try {
      await request(storageQuantity(sizeGb))
    } catch (error) {
      const refusal = refusalOf(error)
      if (refusal?.kind !== 'refused') throw error
      return { kind: 'refused', message: refusal.message }
    }
  }
  let outcome: GrowOutcome | undefined
  const isOver = async (): Promise<boolean> => {
    const now = await api.get(claimPath(address), claimStatus, { signal })
    outcome = growthOf(now, neededBytes)
    return outcome !== undefined
  }
  await pollUntil(isOver, signal, 'The storage has not grown yet.')
  if (outcome?.kind === 'refused') await request(currentSize)
  return outcome ?? { kind: 'refused', message: 'The storage has not grown.' }
}

/** undefined: still growing. */
export function growthOf({ status }: ClaimObject, wantedBytes: number): GrowOutcome | undefined {
  if ((parseQuantity(status?.capacity?.['storage']) ?? 0) >= wantedBytes) return { kind: 'grown' }
  // The storage has its size; the node grows the file system with the next mount.
  const isLate = status?.conditions?.some((one) => one.type === 'FileSystemResizePending' && one.status === 'True')
  if (isLate === true) return { kind: 'grown' }
  const state = status?.allocatedResourceStatuses?.['storage']
  if (state?.endsWith('Infeasible') !== true) return undefined
  const error = status?.conditions?.find(({ type }) => type.endsWith('ResizeError'))?.message
  return { kind: 'refused', message: sentence(error ?? 'The storage cannot grow to this size') }
}

function claimPatch({ namespace, name }: PodAddress, storage: string | undefined) {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name, namespace },
    spec: { resources: { requests: { storage } } },
  }
}

async function listClaims(cluster: Cluster, tagPrefix: string, signal: AbortSignal): Promise<DriverVolume[]> {
  const { api, config } = cluster
  const query = { labelSelector: OURS }
  const { items } = await api.list('/api/v1/persistentvolumeclaims', claimStatus, { query, signal })
  const claims = items.filter(({ metadata }) => metadata.annotations?.[TAG_ANNOTATION]?.startsWith(tagPrefix) === true)
  if (claims.length === 0) return []
  const pods = await cluster.pods(signal)
  return claims.map(({ metadata: { name, namespace = '', annotations }, status }) => {
    const users = pods.filter(({ pod }) => pod.metadata.namespace === namespace && claimsOf(pod).includes(name))
    const isBound = status?.phase === 'Bound'
    return {
      externalId: externalIdOf({ cluster: config.name, namespace, name }),
      tag: annotations?.[TAG_ANNOTATION] ?? '',
      vip: config.name,
      attachedTo: users.map(({ externalId }) => externalId),
      ...(isBound ? {} : { ready: false as const, message: `The claim is ${status?.phase ?? 'new'}.` }),
    }
  })
}

export function claimsOf({ spec }: { spec?: { volumes?: ClaimUse[] | undefined } | undefined }): string[] {
  return (spec?.volumes ?? []).flatMap((one) => one.persistentVolumeClaim?.claimName ?? [])
}

interface ClaimUse {
  readonly persistentVolumeClaim?: { readonly claimName: string } | undefined
}

/** Shows a volume at a cluster that does not answer, or that may exist there. */
function unreachable(
  { tag, externalId, machineId }: KnownVolume,
  clusters: readonly Cluster[],
  answered: ReadonlySet<string>,
  tagPrefix: string,
): DriverVolume | undefined {
  const silent = clusters.map(({ config }) => config.name).filter((name) => !answered.has(name))
  if (externalId === null) {
    // The create may have reached a cluster that does not answer.
    const isThere = silent.some((name) => machineId === null || machineId.startsWith(machineIdOf(name, '')))
    if (tagPrefix === tag && isThere) throw new Error(`Cluster ${silent.join(', ')} does not answer.`)
    return undefined
  }
  const name = readExternalId(externalId)?.cluster ?? ''
  if (!silent.includes(name)) return undefined
  return { externalId, tag, vip: name, attachedTo: [], ready: false, message: `Cluster ${name} does not answer.` }
}

async function isMounted(
  clusterOf: (address: PodAddress) => Cluster,
  externalId: string,
  machineExternalId: string,
  signal: AbortSignal,
): Promise<boolean> {
  const volume = readExternalId(externalId)
  const machine = readExternalId(machineExternalId)
  if (volume === undefined || machine === undefined || volume.namespace !== machine.namespace) return false
  const pod = await clusterOf(machine).api.find(podPath(machine), podObject, { signal })
  return pod !== undefined && claimsOf(pod).includes(volume.name)
}

/** undefined: the outcome is unknown, or the operator has to grant a right first. */
function refusalOf(error: unknown): (VolumeOutcome & { kind: 'refused' }) | undefined {
  if (!(error instanceof ApiRefused)) return undefined
  const { status, message } = error
  if (status === 403 && /exceeded quota/i.test(message)) return refused('no_storage_capacity', message)
  const isRbac = /cannot (create|patch) resource/.test(message)
  return (status === 403 && !isRbac) || status === 400 || status === 422
    ? refused('rejected_by_provider', message)
    : undefined
}

function refused(
  reason: 'no_storage_capacity' | 'rejected_by_provider',
  message: string,
): VolumeOutcome & { kind: 'refused' } {
  return { kind: 'refused', reason, message: sentence(message) }
}

async function pollUntil(isDone: () => Promise<boolean>, signal: AbortSignal, otherwise: string): Promise<void> {
  const until = performance.now() + BIND_MS
  for (
    let waitMs: number = POLL_MS.first;
    !(await isDone());
    waitMs = Math.min(waitMs * POLL_MS.growth, POLL_MS.last)
  ) {
    if (performance.now() > until) throw new Error(otherwise)
    await pause(waitMs, undefined, { signal }).catch((error: unknown) => {
      throw new Error(otherwise, { cause: error })
    })
  }
}
