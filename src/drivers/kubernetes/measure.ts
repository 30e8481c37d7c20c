/**
 * Measures the resource use of pods. CPU and memory come from the metrics API, where one is installed: reading the
 * kubelets instead would need the right to do everything that kubelets can. GPU use comes from DCGM exporters
 * (dcgm.ts).
 */
import type { MachineUse } from '../driver.ts'
import { hasStatus } from './api.ts'
import type { Cluster, OurPod } from './cluster.ts'
import { listExporters, parseExporter, readExporter, type GpuUse } from './dcgm.ts'
import { CONTAINER, ORDER_ANNOTATION, OURS } from './names.ts'
import { podMetrics } from './objects.ts'
import { readNote } from './order-note.ts'
import { parseQuantity } from './quantity.ts'

export const METRICS_PATH = '/apis/metrics.k8s.io/v1beta1/pods'
const BYTES_PER_MIB = 1_048_576
/** The number of exporters that are read at the same time. */
const WIDTH = 16

export async function measureCluster(
  cluster: Cluster,
  warn: (error: unknown, what: string) => void,
  signal: AbortSignal,
): Promise<MachineUse[]> {
  const running = (await cluster.pods(signal)).filter(({ pod }) => pod.status?.phase === 'Running')
  if (running.length === 0) return []
  const [pods, gpus] = await Promise.all([readPods(cluster, signal), readGpus(cluster, running, warn, signal)])
  return running.flatMap(({ pod, externalId }): MachineUse[] => {
    const key = `${pod.metadata.namespace ?? ''}/${pod.metadata.name}`
    const note = readNote(pod.metadata.annotations?.[ORDER_ANNOTATION])
    const usage = pods.get(key)
    const ownGpus = gpus.get(key) ?? []
    if (note === undefined || (usage === undefined && ownGpus.length === 0)) return []
    const cores = note.resources.cpuCount
    return [
      {
        externalId,
        machine: {
          cpuPercent: usage?.cores === undefined || cores <= 0 ? null : (100 * usage.cores) / cores,
          memoryUsedMib: usage?.bytes === undefined ? null : usage.bytes / BYTES_PER_MIB,
          diskUsedMib: null,
          networkRxBytesPerSecond: null,
          networkTxBytesPerSecond: null,
        },
        // The kubelet chooses the devices, so their numbers on the node are not the numbers of the order.
        gpus: note.gpuIndexes.flatMap((index, n) => {
          const gpu = ownGpus[n]
          return gpu === undefined ? [] : [{ index, ...gpu }]
        }),
      },
    ]
  })
}

interface PodUse {
  readonly cores: number | undefined
  readonly bytes: number | undefined
}

/** Returns use by `namespace/name`. Empty if no metrics API is installed, or while it is not ready. */
async function readPods({ api }: Cluster, signal: AbortSignal): Promise<Map<string, PodUse>> {
  const query = { labelSelector: OURS }
  const listed = await api.list(METRICS_PATH, podMetrics, { query, signal }).catch((error: unknown) => {
    if (hasStatus(error, 404, 503)) return undefined
    throw error
  })
  return new Map(
    (listed?.items ?? []).map(({ metadata, containers }) => {
      const usage = containers.find(({ name }) => name === CONTAINER)?.usage
      const used = { cores: parseQuantity(usage?.['cpu']), bytes: parseQuantity(usage?.['memory']) }
      return [`${metadata.namespace ?? ''}/${metadata.name}`, used]
    }),
  )
}

async function readGpus(
  cluster: Cluster,
  running: readonly OurPod[],
  warn: (error: unknown, what: string) => void,
  signal: AbortSignal,
): Promise<Map<string, GpuUse[]>> {
  const nodes = new Set(running.map(({ pod }) => pod.spec?.nodeName))
  const exporters = (await listExporters(cluster, signal)).filter(({ spec }) => nodes.has(spec?.nodeName))
  const gpusByPod = new Map<string, GpuUse[]>()
  const readNext = async (): Promise<void> => {
    for (let exporter = exporters.pop(); exporter !== undefined; exporter = exporters.pop()) {
      try {
        const node = exporter.spec?.nodeName
        const nodePods = new Set(running.filter(({ pod }) => pod.spec?.nodeName === node).map(keyOf))
        for (const [key, gpus] of parseExporter(await readExporter(cluster, exporter, signal)))
          if (nodePods.has(key)) gpusByPod.set(key, gpus)
      } catch (error) {
        signal.throwIfAborted()
        warn(error, `cluster ${cluster.config.name}: could not read the GPU metrics of ${exporter.metadata.name}`)
      }
    }
  }
  await Promise.all(Array.from({ length: WIDTH }, readNext))
  return gpusByPod
}

function keyOf({ pod: { metadata } }: OurPod): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`
}
