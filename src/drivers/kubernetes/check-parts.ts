/** Checks parts that a cluster may lack: storage, cached weights, measurements. Nothing else depends on them. */
import { z } from 'zod'
import type { ClusterCheck } from '../../contract/cluster.ts'
import { hasStatus } from './api.ts'
import type { Cluster } from './cluster.ts'
import { EXPORTER, listExporters } from './dcgm.ts'
import { METRICS_PATH } from './measure.ts'
import { storageClassObject } from './objects.ts'
import { VIRTUAL_MACHINES } from './virtual-machine.ts'

export async function checkParts(cluster: Cluster, signal: AbortSignal): Promise<ClusterCheck[]> {
  return Promise.all([
    checkStorage(cluster, signal),
    checkWeightsCache(cluster, signal),
    checkPodMetrics(cluster, signal),
    checkGpuMetrics(cluster, signal),
    checkVirtualMachines(cluster, signal),
  ])
}

async function checkStorage({ api, config }: Cluster, signal: AbortSignal): Promise<ClusterCheck> {
  const check = 'storage'
  const name = config.storage?.class
  if (name === undefined) return notAvailable(check, 'The settings of the cluster name no storage class.')
  const path = `/apis/storage.k8s.io/v1/storageclasses/${name}`
  const storageClass = await api.find(path, storageClassObject, { signal })
  if (storageClass === undefined) return notAvailable(check, `There is no storage class ${name}.`)
  const grows = storageClass.allowVolumeExpansion === true ? 'can grow' : 'cannot grow'
  return available(check, `Volumes of the class ${name} ${grows}.`)
}

/** Without the cache, each replica of a model downloads its own copy of the weights. */
async function checkWeightsCache({ api, config }: Cluster, signal: AbortSignal): Promise<ClusterCheck> {
  const check = 'weights_cache'
  const { storage, serving } = config
  const fallback = 'Each replica downloads its own weights'
  if (serving === undefined) return notAvailable(check, 'The settings of the cluster have no section serving.')
  if (storage === undefined)
    return notAvailable(check, `${fallback}: the settings of the cluster name no storage class.`)
  if (serving.cache.gbPerNode === 0) return notAvailable(check, `${fallback}: serving.cache.gbPerNode is 0.`)
  const path = `/apis/storage.k8s.io/v1/storageclasses/${storage.class}`
  const storageClass = await api.find(path, storageClassObject, { signal })
  if (storageClass === undefined) return notAvailable(check, `${fallback}: there is no storage class ${storage.class}.`)
  const { gbPerNode, days } = serving.cache
  return available(check, `Each node keeps up to ${gbPerNode} GB of weights for ${days} days without use.`)
}

async function checkPodMetrics({ api }: Cluster, signal: AbortSignal): Promise<ClusterCheck> {
  const check = 'pod_metrics'
  try {
    await api.get(METRICS_PATH, z.unknown(), { query: { limit: '1' }, signal })
    return available(check, 'The metrics API answers.')
  } catch (error) {
    if (hasStatus(error, 404)) return notAvailable(check, 'No metrics server is installed.')
    if (hasStatus(error, 403, 503)) return notAvailable(check, `The metrics API does not answer: ${error.message}`)
    throw error
  }
}

async function checkGpuMetrics(cluster: Cluster, signal: AbortSignal): Promise<ClusterCheck> {
  const check = 'gpu_metrics'
  const exporters = await listExporters(cluster, signal)
  if (exporters.length === 0) return notAvailable(check, `No pod has the label ${EXPORTER.labelSelector}.`)
  const nodes = new Set(exporters.map(({ spec }) => spec?.nodeName))
  return available(check, `A DCGM exporter runs on ${nodes.size} ${nodes.size === 1 ? 'node' : 'nodes'}.`)
}

async function checkVirtualMachines({ api }: Cluster, signal: AbortSignal): Promise<ClusterCheck> {
  const check = 'virtual_machines'
  const machineList = await api.find(VIRTUAL_MACHINES, z.unknown(), { query: { limit: '1' }, signal })
  return machineList === undefined
    ? notAvailable(check, 'KubeVirt is not installed.')
    : available(check, 'KubeVirt is installed.')
}

function available(check: ClusterCheck['check'], detail: string): ClusterCheck {
  return { check, result: 'available', detail }
}
function notAvailable(check: ClusterCheck['check'], detail: string): ClusterCheck {
  return { check, result: 'not_available', detail }
}
