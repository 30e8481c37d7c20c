/** The resources of the simulated Voltage Park, and how its API shows them. */
import { formatInstant, type Instant } from '../../../../src/base/instant.ts'
import type { SimBill } from '../bill.ts'

export const NODE_GPUS = 8

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

interface SimMachine {
  readonly id: string
  readonly name: string
  readonly tags: readonly string[]
  readonly keys: readonly string[]
  readonly script: string
  readonly createdAt: Instant
  readonly readyAt: Instant
  readonly bootFails: boolean
  readonly lostAt: Instant | undefined
  goneAt: Instant | undefined
  readonly bill: SimBill
}

export interface SimRental extends SimMachine {
  readonly location: SimLocation
  readonly network: 'ethernet' | 'infiniband'
  readonly nodes: number
  readonly suborder: number | undefined
  /** Per GPU and hour. */
  price: string
}

export interface SimVm extends SimMachine {
  readonly preset: SimPreset
  readonly forwards: Array<{ internal_port: number; external_port: number }>
  compute: string
}

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

export function rentalRate({ price, nodes }: Pick<SimRental, 'price' | 'nodes'>): bigint {
  return microUsd(price) * BigInt(nodes * NODE_GPUS)
}

export function vmRate(vm: SimVm): bigint {
  return microUsd(vm.compute) + microUsd(vm.preset.storage)
}

const addressOf = (number: number): string => `${Math.floor(number / 250) % 250}.${1 + (number % 250)}`

export function showRental(rental: SimRental, now: Instant, storageId: string | undefined, strange?: string) {
  const suborder = rental.suborder === undefined ? null : String(rental.suborder)
  const base = {
    id: rental.id,
    name: rental.name,
    creation_timestamp: formatInstant(rental.createdAt),
    rate_hourly: decimalOf(rentalRate(rental)),
    suborder,
  }
  if (now < rental.readyAt) return { ...base, status: 'Pending' }
  const status = rental.bootFails || isLost(rental, now) ? 'Failed' : (strange ?? 'Running')
  const start = Number.parseInt(rental.id.slice(-6), 16) * 8
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
      public_ip: `198.51.${addressOf(number)}`,
      private_ip: `10.15.${addressOf(number)}`,
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
  const storage = decimalOf(microUsd(vm.preset.storage))
  const number = Number.parseInt(vm.id.slice(-6), 16)
  const isUp = vm.readyAt <= now
  const status = isLost(vm, now) || (isUp && vm.bootFails) ? 'Outbid' : (strange ?? 'Running')
  return {
    id: vm.id,
    hostnode_id: hostNodeId,
    type: 'ondem',
    status,
    name: vm.name,
    resources: resourcesOf(vm.preset),
    operating_system: vm.preset.operatingSystem,
    pricing: {
      gpus_per_hr: decimalOf(microUsd(vm.compute)),
      vcpu_per_hr: '0.000000',
      ram_per_hr: '0.000000',
      storage_per_hr: storage,
      total_associated_per_hr: decimalOf(vmRate(vm)),
      total_disassociated_per_hr: storage,
    },
    public_ip: isUp ? `203.0.${addressOf(Math.floor(number / 4))}` : '',
    internal_ip: isUp ? `10.7.${addressOf(number)}` : '',
    port_forwards: vm.forwards,
    timestamp_creation: formatInstant(vm.createdAt),
    tags: vm.tags,
  }
}

export function isLost({ lostAt }: SimMachine, now: Instant): boolean {
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
