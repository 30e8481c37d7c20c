/**
 * A node offers its GPUs except broken ones and those that foreign pods have. Claims count GPUs by index, but the
 * kubelet chooses the devices: GPUs that cannot be sold are the last indexes that no rental of ours has.
 */
import { listedName, modelNamed } from '../../domain/gpu-model.ts'
import type { InventoryMachine } from '../driver.ts'
import type { ClusterConfig } from './config.ts'
import type { NodeDevices } from './devices.ts'
import { machineIdOf } from './names.ts'
import type { NodeObject } from './objects.ts'
import { parseQuantity } from './quantity.ts'

const PRODUCT_LABEL = 'nvidia.com/gpu.product'
const MEMORY_LABEL = 'nvidia.com/gpu.memory'
/** KubeVirt sets this label on nodes that can run its machines. */
const VIRTUAL_LABEL = 'kubevirt.io/schedulable'
const BYTES_PER_GB = 1_000_000_000
const MAX_GPUS = 64
/** Used for a node that does not report its hardware. */
const UNKNOWN = { clockMhz: 1, tflops: 1, interface: 'PCIe', storageGb: 10 } as const

/** The resources that the unfinished pods of a node have. */
export interface NodeUse {
  /** The indexes of GPUs that our pods have. */
  readonly ourGpus: ReadonlySet<number>
  readonly otherGpus: number
  readonly otherCores: number
  readonly otherBytes: number
  readonly otherDiskBytes: number
  /** Set if the cluster assigns GPUs by resource claims. */
  readonly devices?: NodeDevices
  /** Why free GPUs of the node are not sold. Absent: they are sold. */
  readonly blockReason?: string
}

export const noUse: NodeUse = { ourGpus: new Set(), otherGpus: 0, otherCores: 0, otherBytes: 0, otherDiskBytes: 0 }

export type NodeOffer =
  | { readonly kind: 'offer'; readonly machine: InventoryMachine }
  /** The reason is for the operator. */
  | { readonly kind: 'none'; readonly reason: string }

export function isReady(node: NodeObject): boolean {
  return node.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true
}

/** Tells whether the node counts the disk space of pods. */
export function limitsDisk(node: NodeObject): boolean {
  return (parseQuantity(node.status?.allocatable?.['ephemeral-storage']) ?? 0) > 0
}

export function offerOf(node: NodeObject, use: NodeUse, config: ClusterConfig): NodeOffer {
  const { capacity = {}, allocatable = {} } = node.status ?? {}
  const labels = node.metadata.labels ?? {}
  const { devices } = use
  const total = devices?.total ?? parseQuantity(capacity[config.gpuResource]) ?? 0
  if (total < 1) return none('it has no GPUs')
  const closed = whyClosed(node, config)
  if (closed !== undefined) return none(closed)
  const product = devices?.product ?? labels[PRODUCT_LABEL]
  if (product === undefined) return none(`it has no label ${PRODUCT_LABEL}`)
  if (/-SHARED$|-MIG-/.test(product)) return none('its GPUs are shared or divided')
  const price = config.prices[product]
  if (price === undefined) return none(`there is no price for ${product}`)
  const gpusTotal = Math.min(MAX_GPUS, Math.floor(total))
  const working = devices?.working ?? Math.floor(parseQuantity(allocatable[config.gpuResource]) ?? 0)
  const model = modelNamed(product.replaceAll('-', ' '))
  const ramMib = devices?.ramMib ?? parseQuantity(labels[MEMORY_LABEL]) ?? model?.ramMib
  if (ramMib === undefined || ramMib < 1) return none(`it has no label ${MEMORY_LABEL}`)
  const cores = Math.floor((parseQuantity(allocatable['cpu']) ?? 0) - use.otherCores)
  const ramGb = Math.floor(((parseQuantity(allocatable['memory']) ?? 0) - use.otherBytes) / BYTES_PER_GB)
  const disk = ((parseQuantity(allocatable['ephemeral-storage']) ?? 0) - use.otherDiskBytes) / BYTES_PER_GB
  if (cores < 1 || ramGb < 1) return none('other pods have all its CPUs or memory')
  const arch = node.status?.nodeInfo?.architecture
  const isVirtual = config.virtualMachines !== undefined
  if (isVirtual && model?.gpuType === undefined) return none(`virtual machines cannot be ordered with ${product}`)
  if (isVirtual && labels[VIRTUAL_LABEL] !== 'true') return none('KubeVirt does not run there')
  return {
    kind: 'offer',
    machine: {
      id: machineIdOf(config.name, node.metadata.name),
      clusterName: config.name,
      region: config.region,
      offering: isVirtual ? 'virtual-machine' : 'marketplace',
      gpuType: model?.gpuType ?? null,
      gpuModel: listedName(product),
      gpuRamMib: Math.round(ramMib),
      gpuFormFactor: model?.formFactor ?? null,
      networkType: config.networkType,
      ethernetVariant: config.networkType === 'ethernet' ? 'normal' : null,
      gpusTotal,
      gpusSick: unsellable(gpusTotal, unsoldOf(gpusTotal, working, use), use.ourGpus),
      priceUsdPerGpuHour: isVirtual ? null : price,
      supplier: config.supplier ?? null,
      hasPersistentStorage: config.storage !== undefined && !isVirtual,
      hardware: {
        cpuModel: labels['feature.node.kubernetes.io/cpu-model.family'] ?? arch ?? 'unknown',
        cpuCores: cores,
        virtualCores: cores,
        ramGb,
        storageGb: limitsDisk(node) ? Math.max(1, Math.floor(disk)) : UNKNOWN.storageGb,
        gpuClockMhz: model?.clockMhz ?? UNKNOWN.clockMhz,
        gpuComputePower: model?.tflops ?? UNKNOWN.tflops,
        gpuInterface: model?.interface ?? UNKNOWN.interface,
        ...(arch === 'amd64' ? { cpuArch: 'x64' } : arch === 'arm64' ? { cpuArch: 'arm64' } : {}),
        disk: limitsDisk(node) ? 'watched' : 'shared',
        ...(config.simulatedGpus ? { simulated: true } : {}),
      },
    },
  }
}

function none(reason: string): NodeOffer {
  return { kind: 'none', reason }
}

/** Returns why the scheduler would not put our pods there. */
function whyClosed(node: NodeObject, config: ClusterConfig): string | undefined {
  if (node.metadata.deletionTimestamp !== undefined) return 'it is being removed'
  if (!isReady(node)) return 'it is not ready'
  if (node.spec?.unschedulable === true) return 'it is cordoned'
  const labels = node.metadata.labels ?? {}
  if (Object.entries(config.nodeSelector).some(([key, value]) => labels[key] !== value)) {
    return 'the node selector excludes it'
  }
  const taint = node.spec?.taints?.find(
    ({ key, effect }) => key !== config.gpuResource && effect !== 'PreferNoSchedule',
  )
  return taint === undefined ? undefined : `it has the taint ${taint.key}:${taint.effect}`
}

function unsoldOf(total: number, working: number, { otherGpus, blockReason }: NodeUse): number {
  return blockReason === undefined ? Math.max(0, total - working) + otherGpus : total
}

function unsellable(total: number, count: number, ours: ReadonlySet<number>): number[] {
  const free = Array.from({ length: total }, (_, n) => total - 1 - n).filter((index) => !ours.has(index))
  return free.slice(0, count).sort((a, b) => a - b)
}
