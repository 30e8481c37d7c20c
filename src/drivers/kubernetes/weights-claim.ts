/**
 * Weights once per node: a storage claim in the namespace of the account, for each node and set of weights. All pods of
 * a node can mount a ReadWriteOnce claim at the same time; the first one downloads into it (agent/shared-weights.ts).
 *
 * It is a cache, so it never stops a start: where the cluster has no storage for it, or refuses it, a pod downloads into
 * its own disk. Claims that no pod has are removed above the budget of a node, and after some days.
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
/** A file system needs this for itself. */
const FILE_SYSTEM_PART = 1.1
const FILE_SYSTEM_GB = 1
/** Storage that takes longer to create would hold up the order. The next pod finds it. */
const BIND_MS = 10_000
const POLL_MS = 250
/** How often the use of a claim is noted while a pod has it. */
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

interface Cached extends CachedWeights {
  readonly claim: ClaimObject
}

/** The name of the claim that a new pod mounts. undefined: it downloads into its own disk. */
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
  const without = (why: unknown): undefined => {
    warn(why, `cluster ${config.name}: the weights of a pod on node ${node} are not cached`)
  }
  try {
    const claim = await api.find(path, claimStatus, { signal })
    if (claim === undefined) {
      const isCreated = await createClaim(cluster, { ...place, name, sizeGb }, clock.now(), signal)
      if (!isCreated) return without(new Error(`The ${serving.cache.gbPerNode} GB per node are in use.`))
    } else {
      if (claim.metadata.labels?.[WEIGHTS_LABEL] === undefined) return without(new Error(`Claim ${name} is not ours.`))
      // It stays as long as a pod has it, but no further pod can.
      if (claim.metadata.deletionTimestamp !== undefined) return without(new Error(`Claim ${name} is being removed.`))
      await noteUse(cluster, { namespace, name }, clock.now(), signal)
    }
    const unusable = await waitForStorage(cluster, path, storage.class, signal)
    return unusable === undefined ? name : without(new Error(unusable))
  } catch (error) {
    if (!(error instanceof ApiRefused)) throw error
    return without(error)
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

/** Removes what is too old or above the budget. Notes the use of the others. */
export async function tidyWeights(cluster: Cluster, { clock, warn }: Tools, signal: AbortSignal): Promise<void> {
  const { serving } = cluster.config
  const now = clock.now()
  if (serving === undefined || now - (cluster.tidiedAt ?? 0) < TIDY_MS) return
  cluster.tidiedAt = now
  const cached = await listCached(cluster, signal)
  for (const one of cached) {
    if (one.isInUse && now - one.usedAt > NOTE_MS) await noteUse(cluster, one, now, signal)
  }
  for (const one of planCache(cached, serving.cache, now).remove) {
    await removeUnused(cluster, one, signal).catch((error: unknown) => {
      signal.throwIfAborted()
      warn(error, `cluster ${cluster.config.name}: could not remove the weights ${one.namespace}/${one.name}`)
    })
  }
}

function claimGb({ files }: HostWeights): number {
  const bytes = [...new Map(files.map((file) => [file.sha256, file.bytes])).values()].reduce((sum, one) => sum + one, 0)
  return Math.ceil((bytes * FILE_SYSTEM_PART) / BYTES_PER_GB) + FILE_SYSTEM_GB
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
  const { remove, fits } = planCache(await listCached(cluster, signal), serving.cache, now, newSet)
  if (!fits) return false
  for (const one of remove) await removeUnused(cluster, one, signal)
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
      // Once per node, which is enough for pods that all go to that node.
      accessModes: ['ReadWriteOnce'],
      storageClassName: storage.class,
      resources: { requests: { storage: storageQuantity(sizeGb) } },
    },
  }
  const path = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`
  await api.create(path, body, anyObject, { signal }).catch((error: unknown) => {
    // Another replica was faster.
    if (!hasStatus(error, 409) || error.reason !== 'AlreadyExists') throw error
  })
  return true
}

/** Why a pod cannot have it. A class that waits for the first pod has its storage created for that one. */
async function waitForStorage(
  { api }: Cluster,
  path: string,
  className: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const until = performance.now() + BIND_MS
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
    if (performance.now() > until) return `The storage class ${className} has not created the storage yet.`
    await pause(POLL_MS, undefined, { signal })
  }
}

/** Those of this installation, in all namespaces. */
async function listCached(cluster: Cluster, signal: AbortSignal): Promise<Cached[]> {
  const query = { labelSelector: `${OURS},${WEIGHTS_LABEL}` }
  const { items } = await cluster.api.list('/api/v1/persistentvolumeclaims', claimStatus, { query, signal })
  const own = items.filter(
    ({ metadata }) =>
      metadata.annotations?.[INSTALLATION_ANNOTATION] === cluster.tagPrefix && metadata.deletionTimestamp === undefined,
  )
  if (own.length === 0) return []
  const pods = await cluster.pods(signal)
  const used = new Set(pods.flatMap(({ pod }) => claimsOf(pod).map((name) => `${pod.metadata.namespace}/${name}`)))
  return own.map((claim) => {
    const { name, namespace = '', annotations, creationTimestamp = '' } = claim.metadata
    return {
      claim,
      name,
      namespace,
      node: annotations?.[NODE_ANNOTATION] ?? '',
      bytes: parseQuantity(claim.spec?.resources?.requests?.['storage']) ?? 0,
      usedAt: parseInstant(annotations?.[USED_ANNOTATION] ?? '') ?? parseInstant(creationTimestamp) ?? instantOf(0),
      isInUse: used.has(`${namespace}/${name}`),
    }
  })
}

/** Not if a pod has come to use it since it was listed: its use was noted, so it has another version. */
async function removeUnused({ api }: Cluster, { claim, ...address }: Cached, signal: AbortSignal): Promise<void> {
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
