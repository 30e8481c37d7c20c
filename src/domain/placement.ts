/**
 * Ranks the machines for an order, and says why the others do not match. The database makes the claim, machine by
 * machine; this only ranks, so a machine that fills up meanwhile costs another attempt and never a double sale. Orders
 * and the operator's report (app/order/placement-report.ts) use the same rules.
 */
import { compareUsd, formatUsdForPeople, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { PlacementOrder, PlacementReason } from '../contract/placement.ts'
import type { ProviderId } from '../contract/provider-data.ts'
import type { GpuType, NetworkType } from '../contract/shared.ts'
import { hasDisk } from './machine.ts'
import { isScarce, type OfferHistory } from './offer-history.ts'

export interface Candidate {
  readonly machineId: string
  readonly clusterName: string
  readonly gpusTotal: number
  readonly gpusFree: number
}

/** Ranks single machines with room for all GPUs, fullest first, so that empty machines stay whole. */
export function rankForShare<T extends Candidate>(candidates: readonly T[], gpuCount: number): T[] {
  return candidates
    .filter((candidate) => candidate.gpusFree >= gpuCount)
    .sort((a, b) => a.gpusFree - b.gpusFree || (a.machineId < b.machineId ? -1 : 1))
}

/**
 * Groups whole machines by cluster, since their private network ends there. The cluster with the fewest spare machines
 * comes first.
 */
export function groupForWhole<T extends Candidate>(candidates: readonly T[], gpuCount: number): T[][] {
  const clusters = new Map<string, T[]>()
  for (const candidate of candidates) {
    if (candidate.gpusFree !== candidate.gpusTotal || gpuCount % candidate.gpusTotal !== 0) continue
    const cluster = clusters.get(candidate.clusterName) ?? []
    cluster.push(candidate)
    clusters.set(candidate.clusterName, cluster)
  }
  return [...clusters.values()]
    .map((cluster) => cluster.sort((a, b) => (a.machineId < b.machineId ? -1 : 1)))
    .filter((cluster) => cluster.reduce((sum, one) => sum + one.gpusTotal, 0) >= gpuCount)
    .sort((a, b) => a.length - b.length)
}

/** The machines that an order needs. */
export interface Demand {
  readonly machineType: 'virtual-machine' | 'bare-metal'
  readonly region: string
  readonly gpuType: GpuType
  readonly networkType: NetworkType
  readonly gpuCount: number
  /** Bare metal: the number of GPUs of one machine, since whole machines are priced by size. null: any. */
  readonly machineGpus: number | null
  /** Size of the disk. null: the default. */
  readonly diskGb: number | null
  /** The customer's price per GPU-hour; offers that cost more do not match. null: any price. */
  readonly pays: NanoUsd | null
}

export interface PlacementMachine extends Candidate {
  readonly driver: ProviderId
  /** The machine itself is simulated, not only its GPUs. */
  readonly isSimulated: boolean
  /** The offer it is a unit of. null: a machine of its own. */
  readonly offerId: string | null
  /** Rented only with all its GPUs; always true for bare metal. */
  readonly soldWhole: boolean
  /** Its provider's price per GPU-hour. null: our own machine. */
  readonly cost: NanoUsd | null
  /** The operator's preference for the account that offers it. */
  readonly preference: number
  /** Orders at its offer in the last hour. null: it has no offer. */
  readonly history: OfferHistory | null
  readonly sellsBelowCost: boolean
  /** The price that the account's rule demands while it is above the price book. null: the machine is on sale. */
  readonly asking: NanoUsd | null
  readonly offering: 'marketplace' | 'virtual-machine' | 'bare-metal'
  readonly region: string
  readonly gpuType: GpuType | null
  readonly networkType: NetworkType
  readonly status: 'node_ready' | 'node_draining' | 'node_lost' | 'node_cleaning' | 'node_quarantined'
  readonly listed: boolean
  readonly gpusClaimed: number
  readonly storageGb: number
  /** The disk that comes with a free GPU: less than its part of `storageGb` if stopped rentals occupy disk. */
  readonly diskGbPerGpu: number
}

export interface Rejection {
  readonly reason: PlacementReason
  /** Shown to operators. */
  readonly detail: string
}

const statusReasons = {
  node_draining: 'draining',
  node_cleaning: 'cleaning',
  node_quarantined: 'quarantined',
  node_lost: 'lost',
} as const

/** Why a machine cannot serve the demand, the most general reason first. undefined: it can, alone or with its cluster. */
export function rejectionOf(
  machine: PlacementMachine,
  demand: Demand,
  drivers: Pick<ReadonlySet<ProviderId>, 'has'>,
): Rejection | undefined {
  if (machine.offering !== demand.machineType)
    return { reason: 'other_offering', detail: `offered as ${machine.offering}` }
  if (machine.region !== demand.region) return { reason: 'region_mismatch', detail: `is in ${machine.region}` }
  if (machine.gpuType !== demand.gpuType)
    return { reason: 'other_gpu', detail: `has ${machine.gpuType ?? 'other GPUs'}` }
  if (machine.networkType !== demand.networkType)
    return { reason: 'other_network', detail: `has ${machine.networkType}` }
  if (!drivers.has(machine.driver))
    return { reason: 'engine_off', detail: `this server has no engine ${machine.driver}` }
  if (!machine.listed) return { reason: 'not_listed', detail: 'taken off sale' }
  if (machine.status !== 'node_ready') return { reason: statusReasons[machine.status], detail: machine.status }
  if (machine.cost !== null && demand.pays !== null && machine.cost > demand.pays && !machine.sellsBelowCost) {
    const [cost, pays] = [machine.cost, demand.pays].map(formatUsdForPeople)
    return { reason: 'costs_too_much', detail: `costs ${cost} per GPU-hour, the order pays ${pays}` }
  }
  if (machine.asking !== null) {
    const asking = formatUsdForPeople(machine.asking)
    return { reason: 'costs_too_much', detail: `its account asks ${asking} per GPU-hour, more than the price book` }
  }
  return demand.machineType === 'bare-metal' ? whyNotWhole(machine, demand) : whyNotInPart(machine, demand)
}

function whyNotInPart(machine: PlacementMachine, { gpuCount, diskGb }: Demand): Rejection | undefined {
  const { gpusTotal, gpusFree, gpusClaimed, soldWhole } = machine
  if (gpusTotal < gpuCount || (soldWhole && gpusTotal !== gpuCount))
    return { reason: 'other_size', detail: `has ${gpusTotal} GPUs` }
  if (gpusFree >= gpuCount) {
    if (hasDisk(machine.diskGbPerGpu, gpuCount, machine, diskGb)) return undefined
    const leftGb = Math.floor(machine.diskGbPerGpu * gpuCount)
    return { reason: 'no_disk', detail: `${leftGb} GB of disk are left for ${gpuCount} GPUs` }
  }
  const unfit = gpusTotal - gpusClaimed - gpusFree
  const detail = `${gpusFree} of ${gpusTotal} GPUs are free, ${unfit} cannot be sold`
  return { reason: gpusFree + unfit >= gpuCount ? 'sick_gpus' : 'too_few_free', detail }
}

function whyNotWhole(machine: PlacementMachine, { gpuCount, machineGpus }: Demand): Rejection | undefined {
  const { gpusTotal, gpusFree, gpusClaimed } = machine
  if (gpuCount % gpusTotal !== 0 || (machineGpus !== null && gpusTotal !== machineGpus)) {
    return { reason: 'other_size', detail: `has ${gpusTotal} GPUs` }
  }
  if (gpusFree === gpusTotal) return undefined
  if (gpusClaimed > 0) return { reason: 'not_whole', detail: `${gpusClaimed} of ${gpusTotal} GPUs are taken` }
  return { reason: 'sick_gpus', detail: `${gpusTotal - gpusFree} of ${gpusTotal} GPUs cannot be sold` }
}

/** Whether a price book row for this GPU count applies to an order. */
export function isPricedBy(
  pricedGpus: number,
  { machineType, gpuCount }: Pick<Demand, 'machineType' | 'gpuCount'>,
): boolean {
  return machineType === 'bare-metal' ? gpuCount % pricedGpus === 0 : gpuCount === pricedGpus
}

/** Places are compared by these criteria, the most important first. */
const criteria = {
  real_first: (a, b) => Number(a.isSimulated) - Number(b.isSimulated),
  own_first: (a, b) => Number(a.offerId !== null) - Number(b.offerId !== null),
  preference: (a, b) => b.preference - a.preference,
  price: (a, b) => compareUsd(a.cost ?? zeroUsd, b.cost ?? zeroUsd),
  no_capacity: (a, b) => Number(isScarce(a.history)) - Number(isScarce(b.history)),
  name: (a, b) => compareText(a.driver, b.driver) || compareText(a.offerId ?? '', b.offerId ?? ''),
} as const satisfies Record<
  Exclude<PlacementOrder, 'first' | 'fuller_first' | 'same'>,
  (a: Origin, b: Origin) => number
>

type Origin = Pick<PlacementMachine, 'driver' | 'isSimulated' | 'offerId' | 'cost' | 'preference' | 'history'>
type Filled = Pick<PlacementMachine, 'gpusFree'>

/** Sort order of providers and offers. */
export function compareOrigins(a: Origin, b: Origin): number {
  for (const compare of Object.values(criteria)) {
    const order = compare(a, b)
    if (order !== 0) return order
  }
  return 0
}

/** The reason why the machine that is tried first comes before this one. */
export function whyLater(first: Origin & Filled, other: Origin & Filled): PlacementOrder {
  const criterion = Object.entries(criteria).find(([, compare]) => compare(first, other) !== 0)?.[0]
  if (criterion !== undefined) return criterion as keyof typeof criteria
  // Units of an offer that a provider has not created yet are all alike.
  return first.gpusFree === other.gpusFree ? 'same' : 'fuller_first'
}

/** Machines of one provider, or units of one offer, cost the same and are tried together. */
export function originOf({ driver, offerId }: Pick<PlacementMachine, 'driver' | 'offerId'>): string {
  return `${driver} ${offerId ?? ''}`
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** The first machines of the cluster that together have enough GPUs. */
export function takeWhole<T extends Candidate>(cluster: readonly T[], gpuCount: number): T[] {
  const machines: T[] = []
  let gpus = 0
  for (const candidate of cluster) {
    if (gpus >= gpuCount) break
    machines.push(candidate)
    gpus += candidate.gpusTotal
  }
  return machines
}
