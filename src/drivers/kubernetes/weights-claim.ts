/**
 * A cache of weights on each node: one storage claim per node and set of weights, in the namespace of the account. All
 * pods of a node can mount a ReadWriteOnce claim at the same time; the first one downloads into it
 * (agent/shared-weights.ts).
 *
 * The cache never prevents a start: if the cluster has no storage for it, or rejects the claim, a pod downloads to its own
 * disk. Claims that no pod uses are removed when the node exceeds its budget, and after some days.
 */
import { setTimeout as pause } from 'node:timers/promises'
import {
  formatInstant,
  HOUR_MS,
  instantOf,
  MINUTE_MS,
  parseInstant,
  type Clock,
  type Instant,
} from '../../base/instant.ts'
import { sha256 } from '../../base/id.ts'
import type { HostWeights } from '../../contract/weights.ts'
import { weightsSetId } from '../../domain/weights-set.ts'
import type { Warn } from './answering.ts'
import { ApiRefused, hasStatus } from './api.ts'
import { storageQuantity } from './claim.ts'
import type { Cluster } from './cluster.ts'
import { ACCOUNT_LABEL, accountLabel, MANAGED_LABEL, MANAGER, OURS } from './names.ts'
import { anyObject, claimStatus, storageClassObject, type ClaimObject } from './objects.ts'
import { parseQuantity } from './quantity.ts'
import { claimPath, claimsOf } from './volumes.ts'
import { planCache, type CachedWeights } from './weights-budget.ts'

const WEIGHTS_LABEL = 'berth/weights'
const NODE_ANNOTATION = 'berth/node'
const USED_ANNOTATION = 'berth/used-at'
const INSTALLATION_ANNOTATION = 'berth/installation'
const BYTES_PER_GB = 1_000_000_000
/** A claim is larger than its files by this factor and size, which the file system needs. */
const FILE_SYSTEM_FACTOR = 1.1
const FILE_SYSTEM_GB = 1
/** An order waits no longer than this for its storage. The next pod can use the storage then. */
const BIND_MS = 10_000
const POLL_MS = 250
/** How often the use of a claim is recorded while a pod mounts it. */
const NOTE_MS = HOUR_MS
const TIDY_MS = 10 * MINUTE_MS

export interface WeightsPlace {
  readonly accountId: string
  readonly namespace: string
  readonly node: string
  readonly weights: HostWeights
}

interface Tools {
  readonly clock: Clock
  readonly warn: Warn
}

interface WeightsClaim extends CachedWeights {
  readonly claim: ClaimObject
}

/** Returns the name of the claim that a new pod mounts. undefined: the pod downloads to its own disk. */
export async function ensureWeightsClaim(
  cluster: Cluster,
  place: WeightsPlace,
  { clock, warn }: Tools,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { api, config } = cluster
  const { storage, serving } = config
  if (storage === undefined || serving === undefined) return undefined
  const sizeGb = claimGb(place.weights)
  if (sizeGb > serving.cache.gbPerNode) return undefined
  const name = weightsClaimName(cluster, place)
  const { namespace, node } = place
  const path = claimPath({ namespace, name })
  const skipCache = (why: unknown): undefined => {
    warn(why, `cluster ${config.name}: the weights of a pod on node ${node} are not cached`)
  }
  try {
    const claim = await api.find(path, claimStatus, { signal })
    if (claim === undefined) {
      const isCreated = await createClaim(cluster, { ...place, name, sizeGb }, clock.now(), signal)
      if (!isCreated) return skipCache(new Error(`The ${serving.cache.gbPerNode} GB per node are in use.`))
    } else {
      if (claim.metadata.labels?.[WEIGHTS_LABEL] === undefined)
        return skipCache(new Error(`Claim ${name} is not ours.`))
      // The claim exists as long as a pod mounts it, but no other pod can mount it any more.
      if (claim.metadata.deletionTimestamp !== undefined) return skipCache(new Error(`Claim ${name} is being removed.`))
      await noteUse(cluster, { namespace, name }, clock.now(), signal)
    }
    const problem = await waitForStorage(cluster, path, storage.class, signal)
    return problem === undefined ? name : skipCache(new Error(problem))
  } catch (error) {
    if (!(error instanceof ApiRefused)) throw error
    return skipCache(error)
  }
}

/** Removes a claim that the scheduler does not accept on its node. */
export async function removeWeightsClaim(
  { api }: Cluster,
  address: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<void> {
  await api.delete(claimPath(address), { signal })
}

/** Removes claims that are too old or above the budget, and records the use of the others. */
export async function tidyWeights(cluster: Cluster, { clock, warn }: Tools, signal: AbortSignal): Promise<void> {
  const { serving } = cluster.config
  const now = clock.now()
  if (serving === undefined || now - (cluster.tidiedAt ?? 0) < TIDY_MS) return
  cluster.tidiedAt = now
  const claims = await listWeightsClaims(cluster, signal)
  for (const claim of claims) {
    if (claim.isInUse && now - claim.usedAt > NOTE_MS) await noteUse(cluster, claim, now, signal)
  }
  for (const claim of planCache(claims, serving.cache, now).remove) {
    await removeUnused(cluster, claim, signal).catch((error: unknown) => {
      signal.throwIfAborted()
      warn(error, `cluster ${cluster.config.name}: could not remove the weights ${claim.namespace}/${claim.name}`)
    })
  }
}

function claimGb({ files }: HostWeights): number {
  const bytes = [...new Map(files.map((file) => [file.sha256, file.bytes])).values()].reduce((sum, one) => sum + one, 0)
  return Math.ceil((bytes * FILE_SYSTEM_FACTOR) / BYTES_PER_GB) + FILE_SYSTEM_GB
}

function weightsClaimName({ tagPrefix }: Cluster, { node, weights }: WeightsPlace): string {
  const text = [tagPrefix, node, weightsSetId(weights)].join('\n')
  return `weights-${sha256(text).toString('hex').slice(0, 32)}`
}

/** false: the budget of the node has no room. */
async function createClaim(
  cluster: Cluster,
  order: WeightsPlace & { readonly name: string; readonly sizeGb: number },
  now: Instant,
  signal: AbortSignal,
): Promise<boolean> {
  const { api, config, tagPrefix } = cluster
  const { storage, serving } = config
  const { name, namespace, node, weights, accountId, sizeGb } = order
  if (storage === undefined || serving === undefined) return false
  const newSet = { node, bytes: sizeGb * BYTES_PER_GB }
  const { remove, fits } = planCache(await listWeightsClaims(cluster, signal), serving.cache, now, newSet)
  if (!fits) return false
  for (const claim of remove) await removeUnused(cluster, claim, signal)
  const body = {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: {
      name,
      namespace,
      labels: {
        [MANAGED_LABEL]: MANAGER,
        [ACCOUNT_LABEL]: accountLabel(accountId),
        [WEIGHTS_LABEL]: weightsSetId(weights),
      },
      annotations: {
        [NODE_ANNOTATION]: node,
        [USED_ANNOTATION]: formatInstant(now),
        [INSTALLATION_ANNOTATION]: tagPrefix,
      },
    },
    spec: {
      // One node can mount it, which is enough: all pods that use it run on that node.
      accessModes: ['ReadWriteOnce'],
      storageClassName: storage.class,
      resources: { requests: { storage: storageQuantity(sizeGb) } },
    },
  }
  const path = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`
  await api.create(path, body, anyObject, { signal }).catch((error: unknown) => {
    // A concurrent order has created the same claim.
    if (!hasStatus(error, 409) || error.reason !== 'AlreadyExists') throw error
  })
  return true
}

/** Returns why a pod cannot mount the claim. A class that waits for the first pod creates the storage when that pod starts. */
async function waitForStorage(
  { api }: Cluster,
  path: string,
  className: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const deadline = performance.now() + BIND_MS
  for (let isFirst = true; ; isFirst = false) {
    const phase = (await api.find(path, claimStatus, { signal }))?.status?.phase
    if (phase === 'Bound') return undefined
    if (phase === 'Lost') return 'Its storage is lost.'
    if (isFirst) {
      const storageClass = await api.find(`/apis/storage.k8s.io/v1/storageclasses/${className}`, storageClassObject, {
        signal,
      })
      if (storageClass === undefined) return `There is no storage class ${className}.`
      if (storageClass.volumeBindingMode === 'WaitForFirstConsumer') return undefined
    }
    if (performance.now() > deadline) return `The storage class ${className} has not created the storage yet.`
    await pause(POLL_MS, undefined, { signal })
  }
}

/** Lists the claims of this installation in all namespaces. */
async function listWeightsClaims(cluster: Cluster, signal: AbortSignal): Promise<WeightsClaim[]> {
  const query = { labelSelector: `${OURS},${WEIGHTS_LABEL}` }
  const { items } = await cluster.api.list('/api/v1/persistentvolumeclaims', claimStatus, { query, signal })
  const claims = items.filter(
    ({ metadata }) =>
      metadata.annotations?.[INSTALLATION_ANNOTATION] === cluster.tagPrefix && metadata.deletionTimestamp === undefined,
  )
  if (claims.length === 0) return []
  const pods = await cluster.pods(signal)
  const mountedClaims = new Set(
    pods.flatMap(({ pod }) => claimsOf(pod).map((name) => `${pod.metadata.namespace}/${name}`)),
  )
  return claims.map((claim) => {
    const { name, namespace = '', annotations, creationTimestamp = '' } = claim.metadata
    return {
      claim,
      name,
      namespace,
      node: annotations?.[NODE_ANNOTATION] ?? '',
      bytes: parseQuantity(claim.spec?.resources?.requests?.['storage']) ?? 0,
      usedAt: parseInstant(annotations?.[USED_ANNOTATION] ?? '') ?? parseInstant(creationTimestamp) ?? instantOf(0),
      isInUse: mountedClaims.has(`${namespace}/${name}`),
    }
  })
}

/**
 * Removes a claim, unless a pod has begun to use it since it was listed: recording that use changes the version of the
 * claim, so the precondition fails.
 */
async function removeUnused({ api }: Cluster, { claim, ...address }: WeightsClaim, signal: AbortSignal): Promise<void> {
  const { uid, resourceVersion } = claim.metadata
  const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid, resourceVersion } }
  await api.delete(claimPath(address), { body, signal }).catch((error: unknown) => {
    if (!hasStatus(error, 409)) throw error
  })
}

async function noteUse(
  { api }: Cluster,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  now: Instant,
  signal: AbortSignal,
): Promise<void> {
  const annotations = { [USED_ANNOTATION]: formatInstant(now) }
  const body = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name, namespace, annotations } }
  await api.apply(claimPath({ namespace, name }), body, anyObject, { signal })
}
