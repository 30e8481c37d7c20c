/** Reports clusters and their nodes to the operator: what is on sale, and why the other GPUs are not. */
import type { ClusterRecord } from '../../contract/cluster.ts'
import type { Cluster } from './cluster.ts'
import type { GpuMemory } from './gpu-memory.ts'
import { machineIdOf } from './names.ts'
import { offerOf } from './node-offer.ts'
import { parseQuantity } from './quantity.ts'

const MAX_ERROR_CHARS = 500
const MAX_NODES = 1_000

export async function reportCluster(cluster: Cluster, memory: GpuMemory, signal: AbortSignal): Promise<ClusterRecord> {
  const { config } = cluster
  const common = { name: config.name, engine: 'kubernetes', region: config.region }
  try {
    const version = await cluster.version(signal)
    const nodes = await memory.nodes(signal)
    return {
      ...common,
      reachable: true,
      error: null,
      version,
      nodes: nodes.slice(0, MAX_NODES).map(({ node, use }) => {
        const { name } = node.metadata
        const offer = offerOf(node, use, config)
        return {
          name,
          machineId: machineIdOf(config.name, name),
          onSale: offer.kind === 'offer',
          reason: offer.kind === 'offer' ? null : offer.reason,
          gpusTotal: use.devices?.total ?? parseQuantity(node.status?.capacity?.[config.gpuResource]) ?? 0,
          gpusUnsold: offer.kind === 'offer' ? offer.machine.gpusSick.length : 0,
          unsoldReason: offer.kind === 'offer' ? (use.blockReason ?? null) : null,
        }
      }),
    }
  } catch (error) {
    signal.throwIfAborted()
    const text = error instanceof Error ? error.message : String(error)
    return { ...common, reachable: false, error: text.slice(0, MAX_ERROR_CHARS), version: null, nodes: [] }
  }
}
