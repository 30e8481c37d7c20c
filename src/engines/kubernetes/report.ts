/** Clusters and their nodes for the operator: what is on sale, and why the rest is not. */
import type { ClusterRecord } from '../../contract/cluster.ts'
import type { Cluster } from './cluster.ts'
import { machineIdOf } from './names.ts'
import { offerOf } from './node-offer.ts'
import { parseQuantity } from './quantity.ts'

const MAX_ERROR_CHARS = 500
const MAX_NODES = 1_000

export async function reportCluster(cluster: Cluster, signal: AbortSignal): Promise<ClusterRecord> {
  const { config } = cluster
  const common = { name: config.name, engine: 'kubernetes', region: config.region }
  try {
    const version = await cluster.version(signal)
    const { nodes, useOf } = await cluster.view.read(signal)
    return {
      ...common,
      reachable: true,
      error: null,
      version,
      nodes: nodes.slice(0, MAX_NODES).map((node) => {
        const { name } = node.metadata
        const use = useOf(name)
        const offer = offerOf(node, use, config)
        return {
          name,
          machineId: machineIdOf(config.name, name),
          onSale: offer.kind === 'offer',
          reason: offer.kind === 'offer' ? null : offer.reason,
          gpusTotal: use.devices?.total ?? parseQuantity(node.status?.capacity?.[config.gpuResource]) ?? 0,
          gpusUnsold: offer.kind === 'offer' ? offer.machine.gpusSick.length : 0,
        }
      }),
    }
  } catch (error) {
    signal.throwIfAborted()
    const text = error instanceof Error ? error.message : String(error)
    return { ...common, reachable: false, error: text.slice(0, MAX_ERROR_CHARS), version: null, nodes: [] }
  }
}
