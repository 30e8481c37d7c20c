/**
 * Units of elastic providers' offers. An elastic provider, such as a cloud, does not list machines; it reports how many
 * it can still create. Each unit that it could create is a machine row, so claims, placement and listings need no
 * special case. A unit stays with its rental; free units follow the provider's reports.
 */

/** Units on sale if the provider reports no number. If a create fails, the order tries another machine. */
const UNITS_WHEN_UNKNOWN = 2
/** The maximum of free units stored: more would not be rented before the next report. */
const MAX_FREE_UNITS = 64

export function unitId(offerId: string, n: number): string {
  return `${offerId}.${n}`
}

/** The offer that a machine is a unit of. undefined: the machine is not a unit. */
export function offerOfUnit(machineId: string): string | undefined {
  return /^(.+)\.\d+$/.exec(machineId)?.[1]
}

export interface KnownUnit {
  readonly id: string
  readonly isRented: boolean
  /** Rented by an order that the provider has not confirmed yet, so its report may still count this unit as free. */
  readonly isUnconfirmed: boolean
}

/**
 * Returns the units of an offer that exist or are on sale. `available`: how many the provider can create; null:
 * unknown.
 */
export function unitsOf(offerId: string, available: number | null, knownUnits: readonly KnownUnit[]): string[] {
  const rented = knownUnits.filter(({ isRented }) => isRented).map(({ id }) => id)
  const unconfirmed = knownUnits.filter(({ isUnconfirmed }) => isUnconfirmed).length
  const free = Math.min(MAX_FREE_UNITS, Math.max(0, (available ?? UNITS_WHEN_UNKNOWN) - unconfirmed))
  const units = [...rented]
  for (let n = 1; units.length < rented.length + free; n += 1) {
    const id = unitId(offerId, n)
    if (!rented.includes(id)) units.push(id)
  }
  return units
}
