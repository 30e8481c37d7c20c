/**
 * Removes the pod of a rental, never by force. A forced delete removes the object while containers on an unreachable
 * node keep running, so their GPUs would be sold twice. The pod of a lost node stays until the node is back or removed.
 */
import { limits } from '../../base/limits.ts'
import { signalWithin } from '../../base/signal-within.ts'
import type { KubernetesApi } from './api.ts'
import type { Cluster } from './cluster.ts'
import type { ClusterConfig } from './config.ts'
import { resourceClaimPath } from './devices.ts'
import { readTail } from './logs.ts'
import { MANAGED_LABEL, MANAGER, podPath, TAG_ANNOTATION, type PodAddress } from './names.ts'
import { anyObject, podObject, type PodObject } from './objects.ts'
import { pullSecretName, secretName } from './pod-spec.ts'
import { virtualMachinePath } from './virtual-machine.ts'
import type { KubernetesWorld } from './world.ts'

/** A node that does not answer must not hold up the removal. */
const LOG_MS = 5_000

export async function destroyPod(
  cluster: Cluster,
  address: PodAddress,
  world: KubernetesWorld,
  warn: (error: unknown, what: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const { api } = cluster
  if (cluster.config.virtualMachines !== undefined) {
    const machine = await api.find(virtualMachinePath(address), anyObject, { signal })
    if (machine !== undefined && machine.metadata.labels?.[MANAGED_LABEL] !== MANAGER) {
      throw new Error(`Virtual machine ${address.name} is not ours.`)
    }
    await api.delete(virtualMachinePath(address), { signal })
    await deleteParts(api, cluster.config, address, signal)
    return
  }
  const pod = await api.find(podPath(address), podObject, { signal })
  if (pod !== undefined) {
    if (pod.metadata.labels?.[MANAGED_LABEL] !== MANAGER) throw new Error(`Pod ${address.name} is not ours.`)
    if (pod.metadata.deletionTimestamp === undefined) await keepLog(api, address, pod, world, warn, signal)
  }
  await deletePod(api, cluster.config, address, signal)
}

/** Also removes the parts of the pod. The cluster removes them only if the pod became their owner in time. */
export async function deletePod(
  api: KubernetesApi,
  config: ClusterConfig,
  address: PodAddress,
  signal: AbortSignal,
): Promise<void> {
  await api.delete(podPath(address), { signal })
  await deleteParts(api, config, address, signal)
}

export async function deleteParts(
  api: KubernetesApi,
  { dra }: ClusterConfig,
  { namespace, name }: PodAddress,
  signal: AbortSignal,
): Promise<void> {
  for (const secret of [secretName(name), pullSecretName(name)]) {
    await api.delete(`/api/v1/namespaces/${namespace}/secrets/${secret}`, { signal })
  }
  if (dra !== undefined) await api.delete(resourceClaimPath({ namespace, name }), { signal })
}

/** Saves the output if it can be read. A failure does not keep the pod. */
async function keepLog(
  api: KubernetesApi,
  address: PodAddress,
  pod: PodObject,
  world: KubernetesWorld,
  warn: (error: unknown, what: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const tag = pod.metadata.annotations?.[TAG_ANNOTATION]
  const hasRun = pod.status?.containerStatuses?.some(({ containerID }) => containerID !== undefined) === true
  if (tag === undefined || !hasRun) return
  try {
    const text = await readTail(api, address, limits.lastLogBytes, signalWithin(signal, LOG_MS))
    await world.saveLog(tag, text)
  } catch (error) {
    signal.throwIfAborted()
    warn(error, `could not keep the log of pod ${address.name}`)
  }
}
