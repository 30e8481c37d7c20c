/**
 * Places for an order. A new order is tried on the machines of one provider or offer at a time (app/order/order.ts); if
 * the provider then has no capacity, the rental moves to the next place here, at the agreed price.
 */
import { addMs } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import { HISTORY_MS } from '../../domain/offer-history.ts'
import { offerOfUnit } from '../../domain/unit.ts'
import {
  compareOrigins,
  groupForWhole,
  originOf,
  rankForShare,
  rejectionOf,
  takeWhole,
  type Demand,
} from '../../domain/placement.ts'
import type { Place } from '../../domain/order.ts'
import { perGpuHour } from '../../domain/term.ts'
import type { Tx } from '../../store/platform/database.ts'
import { readOrderedMachines, releaseGpus, type OrderedMachine } from '../../store/machine/machine.ts'
import { closeOffers } from '../../store/machine/unit.ts'
import { claimPlace } from '../../store/rental/order.ts'
import {
  findFull,
  listPlaceable,
  withHistory,
  type Bounds,
  type PlaceableMachine,
} from '../../store/machine/placement.ts'
import { recordOutcome } from '../../store/machine/offer-outcome.ts'
import { moveToPlace, readTerms, type Rental } from '../../store/rental/rental.ts'
import { listAttachments } from '../../store/volume/volume.ts'
import type { App } from '../app.ts'
import { partOfSpec, withDisk } from './check-order.ts'

/** Nearly always the first attempt succeeds: only a concurrent order can take its GPUs. */
const MAX_ATTEMPTS = 16
/** After this many refusals the order fails: its customer has waited long enough. */
const MAX_REFUSALS = 8

interface Attempt {
  /** One of the machines; the others are alike. */
  readonly example: OrderedMachine
  readonly places: readonly Place[]
}

/**
 * One attempt per provider and offer; for parts of machines one per kind of hardware, because the spec contains the
 * number of cores and the memory.
 */
export async function findPlaces(app: App, tx: Tx, demand: Demand, bounds: Bounds = {}): Promise<Attempt[]> {
  const drivers = [...app.drivers.keys()]
  const listed = await listPlaceable(tx.db, demand, drivers, bounds)
  const machines = await withHistory(tx.db, listed, addMs(tx.clock.now(), -HISTORY_MS))
  const isPart = demand.machineType === 'virtual-machine'
  const groups = new Map<string, PlaceableMachine[]>()
  for (const machine of machines) {
    if (rejectionOf(machine, demand, app.drivers) !== undefined) continue
    const key = isPart ? `${originOf(machine)} ${machine.shape}` : originOf(machine)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [machine])
    else group.push(machine)
  }
  const ranked = [...groups.values()].flatMap((machines) => rankMachines(machines, demand))
  const chosen = ranked.sort(compareRanked).slice(0, MAX_ATTEMPTS)
  // A refusal for a reason of the account comes before no_capacity, so an order is tried even if all machines are full.
  const full = chosen.length > 0 ? undefined : await findFull(tx.db, demand, drivers, bounds)
  if (full !== undefined) chosen.push({ best: full, places: [] })
  const examples = await readOrderedMachines(
    tx.db,
    chosen.map(({ best }) => best.machineId),
  )
  return chosen.flatMap(({ best, places }) => {
    const example = examples.get(best.machineId)
    return example === undefined ? [] : [{ example, places }]
  })
}

interface Ranked {
  readonly best: PlaceableMachine
  readonly places: readonly Place[]
}

function rankMachines(machines: readonly PlaceableMachine[], demand: Demand): Ranked[] {
  const { gpuCount } = demand
  const ranked =
    demand.machineType === 'bare-metal'
      ? groupForWhole(machines, gpuCount).map((cluster) => takeWhole(cluster, gpuCount))
      : rankForShare(machines, gpuCount).map((machine) => [machine])
  const best = ranked[0]?.[0]
  if (best === undefined) return []
  const places = ranked.map((place) => ({
    clusterName: place[0]?.clusterName ?? '',
    machines: place.map(({ machineId, gpusTotal }) => ({
      machineId,
      gpus: demand.machineType === 'bare-metal' ? gpusTotal : gpuCount,
    })),
  }))
  return [{ best, places }]
}

function compareRanked({ best: a }: Ranked, { best: b }: Ranked): number {
  return compareOrigins(a, b) || a.gpusFree - b.gpusFree || (a.machineId < b.machineId ? -1 : 1)
}

/**
 * After a provider has refused a (locked, Pending) rental for lack of capacity: releases its GPUs and claims others.
 * The price stays. False: there is no other place, or the customer chose this one.
 */
export async function placeElsewhere(app: App, tx: Tx, rental: Rental): Promise<boolean> {
  const refused = rental.spec.nodes.map(({ machineId }) => offerOfUnit(machineId) ?? machineId)
  const offers = rental.spec.nodes.flatMap(({ machineId }) => offerOfUnit(machineId) ?? [])
  const refusedBy = [...new Set([...rental.refused_by, ...refused])]
  await releaseGpus(tx, rental.id)
  await closeOffers(tx, rental.driver, offers)
  await recordOutcome(tx, rental, { kind: 'no_capacity' })
  if (rental.kind === 'container' || rental.gpu_type === null || refusedBy.length > MAX_REFUSALS) return false
  const demand: Demand = {
    machineType: rental.kind,
    region: rental.region,
    gpuType: rental.gpu_type,
    networkType: rental.network_type,
    gpuCount: rental.gpu_count,
    machineGpus: rental.kind === 'bare-metal' ? rental.gpu_count / Math.max(1, rental.spec.nodes.length) : null,
    diskGb: rental.spec.workload?.diskGb ?? null,
    pays: await readPays(tx, rental),
  }
  // A volume cannot follow to another provider, nor one on the disk of a host to another host.
  const isBound = (await listAttachments(tx.db, { rentalIds: [rental.id] })).length > 0
  if (isBound && app.drivers.get(rental.driver)?.volumes?.isLocal === true) return false
  const bounds: Bounds = {
    volumes: isBound ? { driver: rental.driver } : undefined,
    account: rental.spec.providerAccount,
    refusedBy,
  }
  for (const { example, places } of await findPlaces(app, tx, demand, bounds)) {
    const { maxCostUsdPerGpuHour: _, ...spec } = rental.spec
    const part = partOfSpec(example, { kind: rental.kind, gpuCount: rental.gpu_count, pays: demand.pays })
    const resources = withDisk(app, example, rental.kind, part.resources, demand.diskGb)
    const claimed = await claimPlace(tx, rental.id, places, resources.storageGb)
    if (claimed === undefined) continue
    await moveToPlace(tx, rental.id, {
      driver: example.driver,
      clusterName: claimed.clusterName,
      spec: { ...spec, ...part, resources, ...claimed },
      refusedBy,
    })
    tx.wake.add('provision')
    return true
  }
  return false
}

async function readPays(tx: Tx, rental: Rental): Promise<NanoUsd | null> {
  const term = (await readTerms(tx.db, [rental.id])).get(rental.id)
  return term === undefined ? null : perGpuHour(term.costPerHour, rental.gpu_count)
}
