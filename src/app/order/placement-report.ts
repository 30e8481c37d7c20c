/** Explains to operators where an order would be placed, by the rules of real orders. */
import {
  compareOrigins,
  groupForWhole,
  isPricedBy,
  originOf,
  rankForShare,
  rejectionOf,
  type PlacementMachine,
  type Rejection,
  type Demand,
} from '../../domain/placement.ts'
import { placementReason } from '../../contract/placement.ts'
import { addMs } from '../../base/instant.ts'
import { HISTORY_MS } from '../../domain/offer-history.ts'
import { listAllMachines, withHistory } from '../../store/machine/placement.ts'
import { findGpuPrices, type GpuPrice } from '../../store/machine/price.ts'
import type { App } from '../app.ts'

export interface PlacementReport {
  readonly found: boolean
  readonly price: 'found' | 'disabled' | 'missing' | 'other_gpu_count'
  readonly candidates: PlacementMachine[]
  readonly rejected: Array<Rejection & { readonly machine: PlacementMachine }>
  readonly rejectedCount: number
}

const MAX_MACHINES = 100_000
const MAX_SHOWN = 200

export async function explainPlacement(
  app: App,
  order: Omit<Demand, 'machineGpus' | 'pays' | 'diskGb'>,
): Promise<PlacementReport> {
  const { db } = app.database
  const prices = await findGpuPrices(db, order)
  const serves = (price: GpuPrice): boolean => isPricedBy(price.gpu_count, order)
  const row = prices.findLast((price) => price.enabled && serves(price))
  const machineGpus = order.machineType === 'bare-metal' ? (row?.gpu_count ?? null) : null
  const demand: Demand = { ...order, machineGpus, diskGb: null, pays: row?.nano_per_gpu_hour ?? null }
  const drivers = new Set(app.drivers.keys())
  const fit: PlacementMachine[] = []
  const rejected: Array<Rejection & { machine: PlacementMachine }> = []
  const machines = await listAllMachines(db, MAX_MACHINES)
  for (const machine of await withHistory(db, machines, addMs(app.clock.now(), -HISTORY_MS))) {
    const rejection = rejectionOf(machine, demand, drivers)
    if (rejection === undefined) fit.push(machine)
    else rejected.push({ machine, ...rejection })
  }
  const candidates = rank(fit, demand)
  for (const machine of fit) {
    if (candidates.includes(machine)) continue
    const detail = `cluster ${machine.clusterName} has too few whole machines`
    rejected.push({ machine, reason: 'cluster_too_small', detail })
  }
  // The later the rule that rejects it, the closer it was to matching.
  rejected.sort((a, b) => nearness(b) - nearness(a) || (a.machine.machineId < b.machine.machineId ? -1 : 1))
  return {
    found: row !== undefined && candidates.length > 0,
    price: row !== undefined ? 'found' : priceVerdict(prices, serves),
    candidates: candidates.slice(0, MAX_SHOWN),
    rejected: rejected.slice(0, MAX_SHOWN),
    rejectedCount: rejected.length,
  }
}

function priceVerdict(prices: readonly GpuPrice[], serves: (price: GpuPrice) => boolean): PlacementReport['price'] {
  if (prices.some(serves)) return 'disabled'
  return prices.length > 0 ? 'other_gpu_count' : 'missing'
}

function rank(machines: readonly PlacementMachine[], demand: Demand): PlacementMachine[] {
  const byOrigin = new Map<string, PlacementMachine[]>()
  for (const machine of machines.toSorted(compareOrigins)) {
    const origin = originOf(machine)
    byOrigin.set(origin, [...(byOrigin.get(origin) ?? []), machine])
  }
  return [...byOrigin.values()].flatMap((candidates) => {
    return demand.machineType === 'bare-metal'
      ? groupForWhole(candidates, demand.gpuCount).flat()
      : rankForShare(candidates, demand.gpuCount)
  })
}

function nearness({ reason }: Rejection): number {
  return placementReason.options.indexOf(reason)
}
