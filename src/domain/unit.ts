/**
 * Offers of elastic engines. An engine such as a cloud does not list machines, but reports what it can still create.
 * Each unit it could create is a machine in the database, so claims, placement and listings need no special case. A unit
 * stays with its rental; free units follow the engine's reports.
 */

/** Units on sale if the engine reports no number. If its create fails, the order tries another machine. */
const UNITS_WHEN_UNKNOWN = 2
/** Maximum number of free units stored: more would not be rented before the next report. */
const MAX_FREE_UNITS = 64

export function unitId(offerId: string, n: number): string {
  return `${offerId}.${n}`
}

/** The offer that a machine is a unit of. undefined: a machine of its own. */
export function offerOfUnit(machineId: string): string | undefined {
  return /^(.+)\.\d+$/.exec(machineId)?.[1]
}

export interface KnownUnit {
  readonly id: string
  readonly isRented: boolean
  /** Rented by an order that the engine has not confirmed yet, so that its count may still include this unit. */
  readonly isUnconfirmed: boolean
}

/** The units of an offer that exist or are on sale. `available`: how many the engine can create; null: unknown. */
export function unitsOf(offerId: string, available: number | null, known: readonly KnownUnit[]): string[] {
  const rented = known.filter(({ isRented }) => isRented).map(({ id }) => id)
  const unconfirmed = known.filter(({ isUnconfirmed }) => isUnconfirmed).length
  const free = Math.min(MAX_FREE_UNITS, Math.max(0, (available ?? UNITS_WHEN_UNKNOWN) - unconfirmed))
  const units = [...rented]
  for (let n = 1; units.length < rented.length + free; n += 1) {
    const id = unitId(offerId, n)
    if (!rented.includes(id)) units.push(id)
  }
  return units
}
