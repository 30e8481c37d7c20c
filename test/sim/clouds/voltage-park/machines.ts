/** The resources of the simulated Voltage Park, and how its API shows them. */
import { formatInstant, type Instant } from '../../../../src/base/instant.ts'
import type { SimBill } from '../bill.ts'
import { addressTail, type Machine } from '../fleet.ts'

export const NODE_GPUS = 8
export const NANO_PER_MICRO = 1_000n

export interface SimLocation {
  readonly id: string
  /** GPUs that exist, and prices per GPU and hour, by network. */
  readonly gpus: { ethernet: number; infiniband: number }
  readonly prices: { ethernet: string; infiniband: string }
}

export interface SimPreset {
  readonly id: string
  readonly location: string
  readonly gpus: number
  readonly gpu: string
  readonly operatingSystem: string
  compute: string
  readonly storage: string
  /** Machines that there can be. */
  capacity: number
}

interface MachineDetails {
  readonly tags: readonly string[]
  readonly keys: readonly string[]
  readonly script: string
}

interface RentalDetails extends MachineDetails {
  readonly kind: 'metal'
  readonly network: 'ethernet' | 'infiniband'
  readonly nodes: number
  readonly suborder: number | undefined
}

interface VmDetails extends MachineDetails {
  readonly kind: 'vm'
  readonly forwards: Array<{ internal_port: number; external_port: number }>
}

export type SimType = SimLocation | SimPreset
export type SimDetails = RentalDetails | VmDetails
export type SimRental = Machine<SimLocation, RentalDetails>
export type SimVm = Machine<SimPreset, VmDetails>

export interface SimStorage {
  readonly id: string
  readonly name: string
  sizeGb: number
  rentals: string[]
  readonly createdAt: Instant
  readonly bill: SimBill
  broken: boolean
}

export const nodeSpecs = {
  gpu_model: 'h100-sxm5-80gb',
  gpu_count: NODE_GPUS,
  cpu_model: 'Intel Xeon Platinum 8470',
  cpu_count: 104,
  ram_gb: 1024,
  storage_gb: 20_000,
}

export function resourcesOf({ gpu, gpus }: SimPreset) {
  return { gpus: { [gpu]: { count: gpus } }, ram_gb: 120 * gpus, storage_gb: 1750 * gpus, vcpu_count: 26 * gpus }
}

/** Amounts have six decimals. */
function microUsd(decimal: string): bigint {
  const [whole = '0', fraction = ''] = decimal.split('.')
  return BigInt(whole) * 1_000_000n + BigInt(fraction.padEnd(6, '0'))
}

function decimalOf(micro: bigint): string {
  return `${micro / 1_000_000n}.${String(micro % 1_000_000n).padStart(6, '0')}`
}

/** In nano-dollars per hour; the price is per GPU. */
export function rentalRate(price: string, nodes: number): bigint {
  return microUsd(price) * BigInt(nodes * NODE_GPUS) * NANO_PER_MICRO
}

export function vmRate({ compute, storage }: SimPreset): bigint {
  return (microUsd(compute) + microUsd(storage)) * NANO_PER_MICRO
}

export function showRental(rental: SimRental, now: Instant, storageId: string | undefined, strange?: string) {
  const suborder = rental.suborder === undefined ? null : String(rental.suborder)
  const base = {
    id: rental.id,
    name: rental.name,
    creation_timestamp: formatInstant(rental.createdAt),
    rate_hourly: decimalOf(rental.nanoPerHour / NANO_PER_MICRO),
    suborder,
  }
  if (now < rental.readyAt) return { ...base, status: 'Pending' }
  const status = rental.bootFails || isLost(rental, now) ? 'Failed' : (strange ?? 'Running')
  const start = rental.number * 8
  const numbers = status === 'Failed' ? [] : Array.from({ length: rental.nodes }, (_, n) => start + n)
  return {
    ...base,
    status,
    power_status: 'Running',
    node_count: rental.nodes,
    specs_per_node: nodeSpecs,
    network_type: rental.network,
    username: 'ubuntu',
    node_networking: numbers.map((number) => ({
      public_ip: `198.51.${addressTail(number)}`,
      private_ip: `10.15.${addressTail(number)}`,
    })),
    sub_order: suborder,
    storage_id: storageId ?? null,
    storage_pv: null,
    storage_pvc: null,
    k8s_cluster_id: null,
    kubeconfig: null,
    tags: rental.tags,
  }
}

export function showVm(vm: SimVm, now: Instant, hostNodeId: string, strange?: string) {
  const storage = microUsd(vm.type.storage)
  const total = vm.nanoPerHour / NANO_PER_MICRO
  const number = vm.number
  const isUp = vm.readyAt <= now
  const status = isLost(vm, now) || (isUp && vm.bootFails) ? 'Outbid' : (strange ?? 'Running')
  return {
    id: vm.id,
    hostnode_id: hostNodeId,
    type: 'ondem',
    status,
    name: vm.name,
    resources: resourcesOf(vm.type),
    operating_system: vm.type.operatingSystem,
    pricing: {
      gpus_per_hr: decimalOf(total - storage),
      vcpu_per_hr: '0.000000',
      ram_per_hr: '0.000000',
      storage_per_hr: decimalOf(storage),
      total_associated_per_hr: decimalOf(total),
      total_disassociated_per_hr: decimalOf(storage),
    },
    public_ip: isUp ? `203.0.${addressTail(Math.floor(number / 4))}` : '',
    internal_ip: isUp ? `10.7.${addressTail(number)}` : '',
    port_forwards: vm.forwards,
    timestamp_creation: formatInstant(vm.createdAt),
    tags: vm.tags,
  }
}

function isLost({ lostAt }: SimRental | SimVm, now: Instant): boolean {
  return lostAt !== undefined && lostAt <= now
}

export function showStorage({ id, name, sizeGb, rentals, broken }: SimStorage) {
  return {
    id,
    size_in_gb: sizeGb,
    name,
    status: broken ? 'inactive' : 'active',
    rate_hourly: decimalOf(STORAGE_MICRO_PER_GB * BigInt(sizeGb)),
    order_ids: rentals,
    tenant_id: 7,
    vip: '10.15.255.10',
  }
}

export const STORAGE_MICRO_PER_GB = 120n
