/**
 * Creates the pod of a rental. Its name derives from the tag, so a repeated call reuses the pod of the first.
 * Kubernetes accepts a pod for which there is no room and leaves it waiting; such a pod is removed again, and the order
 * is refused.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Clock } from '../../base/instant.ts'
import type { RentalSpec } from '../../domain/rental.ts'
import { openPortsOf } from '../../domain/workload.ts'
import type { CreateOutcome } from '../driver.ts'
import { NeverStarts } from '../../runtimes/runtime.ts'
import type { Warn } from './answering.ts'
import { ApiRefused, hasStatus, type KubernetesApi } from './api.ts'
import type { Cluster } from './cluster.ts'
import type { PodFollower } from './cluster-view.ts'
import type { ClusterConfig } from './config.ts'
import { deletePod, deleteParts } from './destroy.ts'
import { resourceClaimPath } from './devices.ts'
import { checkImage } from './image-rule.ts'
import { externalIdOf, podPath, readExternalId, TAG_ANNOTATION, type PodAddress } from './names.ts'
import { limitsDisk } from './node-offer.ts'
import { anyObject, claimStatus, podObject, type PodObject } from './objects.ts'
import { podObjects, type PodOrder } from './pod-spec.ts'
import { sentence } from './pod-state.ts'
import { claimPath, claimsOf } from './volumes.ts'
import { whyNoDiskFor } from './weights.ts'
import { ensureWeightsClaim, removeWeightsClaim } from './weights-claim.ts'
import type { KubernetesWorld } from './world.ts'

/** For a moment, a new namespace has no service account and no counted quota. */
const NAMESPACE_READY_MS = 10_000
/** Another pod may be about to free its resources. */
const NO_ROOM_MS = 2_000
/** After this time the pod is left waiting: the scheduler is slow or down. */
const SCHEDULED_MS = 10_000
/** Matches the scheduler's messages about volumes. */
const REFUSED_VOLUME = /volume/i
const POLL_MS = { first: 100, last: 1_000 } as const

export interface CreateTools {
  readonly world: KubernetesWorld
  readonly clock: Clock
  readonly warn: Warn
}

export type Refusal = CreateOutcome & { readonly kind: 'refused' }

export async function createPod(
  cluster: Cluster,
  tag: string,
  spec: RentalSpec,
  tools: CreateTools,
  signal: AbortSignal,
): Promise<CreateOutcome> {
  const { world } = tools
  const [claim] = spec.nodes
  if (spec.kind !== 'container' || claim === undefined || spec.nodes.length !== 1) {
    return refused('wrong_kind', 'This cluster runs containers on one node only.')
  }
  const order = await world.orderOf(tag)
  if (order === undefined) throw new Error(`There is no order with the tag ${tag}.`)
  const node = await cluster.nodeOf(claim.machineId, signal)
  if (node === undefined) return refused('no_capacity', `Node ${claim.machineId} has left the cluster.`)
  const image = await nameImage(cluster, spec)
  if (typeof image !== 'string') return image
  const { config } = cluster
  const namespace = await cluster.namespaces.ensure(order.accountId, signal)
  const unusable = await refuseVolumes(cluster, spec, namespace, node.metadata.name, signal)
  if (unusable !== undefined) return unusable
  await world.openPorts(tag, openPortsOf(spec))
  const { accountId, program } = order
  const parts = {
    tag,
    spec,
    ...order,
    config,
    namespace,
    node: node.metadata.name,
    image,
    limitsDisk: limitsDisk(node),
  }
  const place = async (weightsClaim: string | undefined): Promise<CreateOutcome> => {
    const tooLarge = weightsClaim === undefined ? whyNoDiskFor(program, spec.resources.storageGb) : undefined
    if (tooLarge !== undefined) return refused('weights_unavailable', tooLarge)
    return placePod(cluster, { ...parts, weightsClaim }, signal).catch((error: unknown) => {
      // Someone may have removed the namespace since it was checked.
      if (hasStatus(error, 404)) cluster.namespaces.forget(accountId)
      throw error
    })
  }
  const { weights } = program
  if (weights === undefined) return place(undefined)
  const at = { accountId, namespace, node: node.metadata.name, weights }
  const shared = await ensureWeightsClaim(cluster, at, tools, signal)
  const outcome = await place(shared)
  if (shared === undefined || outcome.kind === 'created' || !REFUSED_VOLUME.test(outcome.message)) return outcome
  // The storage is not available on this node, as with classes that choose a zone before they know the pod.
  await removeWeightsClaim(cluster, { namespace, name: shared }, signal)
  tools.warn(new Error(outcome.message), `cluster ${config.name}: weights cannot be cached on ${node.metadata.name}`)
  return place(undefined)
}

async function placePod(cluster: Cluster, order: PodOrder, signal: AbortSignal): Promise<CreateOutcome> {
  const { api, config } = cluster
  const { tag, namespace } = order
  const { name, pod, secrets, claim: gpus } = podObjects(order)
  const address: PodAddress = { cluster: config.name, namespace, name }
  const applyParts = async (owner: object): Promise<void> => {
    if (gpus !== undefined) {
      const body = { ...gpus, metadata: { ...gpus.metadata, ...owner } }
      await api.apply(resourceClaimPath({ namespace, name }), body, anyObject, { signal })
    }
    for (const secret of secrets) {
      const path = `/api/v1/namespaces/${namespace}/secrets/${secret.metadata.name}`
      await api.apply(path, { ...secret, metadata: { ...secret.metadata, ...owner } }, anyObject, { signal })
    }
  }
  // The parts come before the pod, which would wait for them: after a crash in between, a pod could never start.
  const follower = cluster.view.follow(address)
  try {
    const posted = await applyParts({}).then(
      () => postPod(api, address, tag, pod, signal),
      (error: unknown) => refusalOrThrow(error),
    )
    if (posted.kind === 'refused') {
      await deleteParts(api, config, address, signal)
      return posted
    }
    const { uid } = posted.pod.metadata
    if (uid !== undefined) await applyParts({ ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name, uid }] })
    const noRoom = await waitForRoom(cluster, address, posted.pod, follower, signal)
    return noRoom ?? { kind: 'created', externalId: externalIdOf(address) }
  } finally {
    follower.stop()
  }
}

/** Refuses an order with a volume that its pod cannot mount: the pod would wait for ever. */
async function refuseVolumes(
  cluster: Cluster,
  { disks = [] }: RentalSpec,
  namespace: string,
  node: string,
  signal: AbortSignal,
): Promise<Refusal | undefined> {
  if (disks.length === 0) return undefined
  const pods = await cluster.pods(signal)
  for (const { volumeId } of disks) {
    const address = readExternalId(volumeId)
    if (address?.cluster !== cluster.config.name || address.namespace !== namespace) {
      return refused('volume_unavailable', `Volume ${volumeId} is not in this cluster.`)
    }
    const claim = await cluster.api.find(claimPath(address), claimStatus, { signal })
    if (claim === undefined) return refused('volume_unavailable', `Claim ${address.name} is gone.`)
    if (claim.spec?.accessModes?.includes('ReadWriteOnce') !== true) continue
    const otherPod = pods.find(
      ({ pod }) =>
        pod.metadata.namespace === namespace &&
        claimsOf(pod).includes(address.name) &&
        pod.spec?.nodeName !== undefined &&
        pod.spec.nodeName !== node,
    )
    if (otherPod !== undefined) {
      return refused('volume_unavailable', `Claim ${address.name} is in use on node ${otherPod.pod.spec?.nodeName}.`)
    }
  }
  return undefined
}

async function nameImage({ config }: Cluster, { image }: RentalSpec): Promise<string | Refusal> {
  try {
    return await checkImage(image, config)
  } catch (error) {
    if (error instanceof NeverStarts) return refused(error.reason, error.message)
    throw error
  }
}

async function postPod(
  api: KubernetesApi,
  address: PodAddress,
  tag: string,
  pod: object,
  signal: AbortSignal,
): Promise<{ kind: 'made'; pod: PodObject } | Refusal> {
  const until = performance.now() + NAMESPACE_READY_MS
  for (;;) {
    try {
      const path = `/api/v1/namespaces/${address.namespace}/pods`
      return { kind: 'made', pod: await api.create(path, pod, podObject, { signal }) }
    } catch (error) {
      if (hasStatus(error, 409) && error.reason === 'AlreadyExists') return adopt(api, address, tag, signal)
      if (isNotReadyYet(error) && performance.now() < until) {
        await pause(POLL_MS.first, undefined, { signal })
        continue
      }
      return refusalOrThrow(error)
    }
  }
}

/** Adopts the pod of an earlier call. */
async function adopt(
  api: KubernetesApi,
  address: PodAddress,
  tag: string,
  signal: AbortSignal,
): Promise<{ kind: 'made'; pod: PodObject }> {
  const pod = await api.get(podPath(address), podObject, { signal })
  if (pod.metadata.annotations?.[TAG_ANNOTATION] !== tag) throw new Error(`Pod ${address.name} is not ours.`)
  if (pod.metadata.deletionTimestamp !== undefined) throw new Error(`Pod ${address.name} is still being removed.`)
  return { kind: 'made', pod }
}

function isNotReadyYet(error: unknown): boolean {
  return (
    hasStatus(error, 403) &&
    /status unknown for quota|error looking up service account|serviceaccount .* not found/i.test(error.message)
  )
}

function refusalOrThrow(error: unknown): Refusal {
  const refusal = refusalOf(error)
  if (refusal === undefined) throw error
  return refusal
}

/** undefined: the outcome is unknown, or the operator has to grant a right first. */
export function refusalOf(error: unknown): Refusal | undefined {
  if (!(error instanceof ApiRefused)) return undefined
  const { status, message } = error
  if (status === 403 && /exceeded quota/i.test(message)) {
    return refused('no_capacity', `The quota of the account in this cluster is used up: ${message}`)
  }
  const isRbac = /cannot \w+ resource/.test(message)
  if ((status === 403 && !isRbac) || status === 400 || status === 422) {
    return refused('engine_failure', `The cluster does not admit the pod: ${message}`)
  }
  return undefined
}

/**
 * Returns a refusal if the scheduler finds no room on the node. Follows the watch, and reads the pod while the watch is
 * silent.
 */
async function waitForRoom(
  { api, config }: Cluster,
  address: PodAddress,
  posted: PodObject,
  follower: PodFollower,
  signal: AbortSignal,
): Promise<Refusal | undefined> {
  const started = performance.now()
  let fullSince: number | undefined
  let pod: PodObject | undefined = posted
  for (;;) {
    // Someone else removed the pod in the meantime; the list will show that.
    if (pod === undefined || pod.spec?.nodeName !== undefined) return undefined
    const scheduled = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled')
    const now = performance.now()
    if (scheduled?.status === 'False' && scheduled.reason === 'Unschedulable') {
      fullSince ??= now
      if (now - fullSince >= NO_ROOM_MS) {
        await removeUnscheduled(api, config, address, signal)
        return refused('no_capacity', `The node has no room: ${scheduled.message ?? 'no reason given'}`)
      }
    }
    if (now - started >= SCHEDULED_MS) return undefined
    pod = (await follower.next(POLL_MS.last, signal)) ?? (await api.find(podPath(address), podObject, { signal }))
  }
}

/** The scheduler may find room at the last moment, so the pod counts as refused only once it is gone. */
async function removeUnscheduled(
  api: KubernetesApi,
  config: ClusterConfig,
  address: PodAddress,
  signal: AbortSignal,
): Promise<void> {
  await deletePod(api, config, address, signal)
  while ((await api.find(podPath(address), podObject, { signal })) !== undefined) {
    await pause(POLL_MS.last, undefined, { signal })
  }
}

export function refused(reason: string, message: string): Refusal {
  return { kind: 'refused', reason, message: sentence(message) }
}
