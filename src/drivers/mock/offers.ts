/**
 * The elastic half of the simulated provider: offers with a capacity instead of named machines, as in a cloud. The
 * catalogue may change between any two calls.
 */
import { parseUsd } from '../../base/money.ts'
import type { RentalSpec } from '../../domain/rental.ts'
import { offerOfUnit } from '../../domain/unit.ts'
import type { CreateOutcome, InventoryOffer } from '../driver.ts'
import { faultsOf } from './faults.ts'
import { make, refused, type Engine } from './make.ts'
import type { MockMachine } from './world.ts'

export interface MockOffer extends Omit<InventoryOffer, 'available'> {
  /** All units, including rented ones. */
  readonly capacity: number
  /** Whether the provider reports how many are left. */
  readonly reportsCount: boolean
}

/** The offer of an order, whose nodes are all units of it. undefined: the order is for machines. */
export function offerOf({ nodes: [first] }: Pick<RentalSpec, 'nodes'>): string | undefined {
  return first === undefined ? undefined : offerOfUnit(first.machineId)
}

export async function listOffers(engine: Engine, offers: readonly MockOffer[]): Promise<InventoryOffer[]> {
  const machines = await engine.world.listMachines('', engine.clock.now())
  return offers.map(({ capacity, reportsCount, ...offer }) => {
    const unitsLeft = Math.max(0, capacity - unitsInUse(machines, offer))
    return { ...offer, available: reportsCount ? unitsLeft : null }
  })
}

/** Creates first and counts afterwards, so that at most one of two concurrent orders gets the last unit. */
export async function createOnOffer(
  engine: Engine,
  offers: readonly MockOffer[],
  tag: string,
  spec: RentalSpec,
): Promise<CreateOutcome> {
  const { world, clock } = engine
  const offer = offers.find(({ id }) => id === offerOf(spec))
  if (offer === undefined) return refused('no_capacity', 'The engine no longer has this offer.')
  if (costOf(offer.costUsdPerGpuHour) > costOf(spec.maxCostUsdPerGpuHour ?? null)) {
    return refused('no_capacity', 'The engine charges more for this offer than the order pays.')
  }
  const faults = faultsOf(spec.label)
  const added: string[] = []
  const creation = make(engine, 'm', tag, faults, async (life) => {
    const isAdded = await world.addMachine({ ...life, spec })
    if (isAdded) added.push(life.externalId)
    return isAdded
  })
  const outcome = await creation.then(
    (externalId): CreateOutcome => ({ kind: 'created', externalId }),
    (error: unknown) => ({ error }),
  )
  if (unitsInUse(await world.listMachines('', clock.now()), offer) > offer.capacity) {
    for (const externalId of added) await world.markMachineGone(externalId, clock.now())
    return refused('no_capacity', 'The engine has no unit of this offer left.')
  }
  if ('error' in outcome) throw outcome.error
  return outcome
}

/** Counted by GPUs, since units of a pool are rented in parts. */
function unitsInUse(machines: readonly MockMachine[], { id, gpusTotal }: Pick<MockOffer, 'id' | 'gpusTotal'>): number {
  const nodes = machines.flatMap(({ spec }) => spec.nodes).filter(({ machineId }) => offerOfUnit(machineId) === id)
  return Math.ceil(nodes.reduce((sum, { gpuIndexes }) => sum + gpuIndexes.length, 0) / gpusTotal)
}

function costOf(amount: string | null): bigint {
  return amount === null ? 0n : (parseUsd(amount) ?? 0n)
}
