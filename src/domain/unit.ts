/**
 * Offers of elastic engines. An engine such as a cloud does not name machines, it says what it could still make. Each
 * unit that it could make is a machine in the database, so claims, placement and listings know no second kind. A unit
 * stays with its rental; the free ones come and go with what the engine reports.
 */

/** Units on sale of an offer whose engine gives no number. Its create tells; a refusal sends the order elsewhere. */
const UNITS_WHEN_UNKNOWN = 2
/** More free units than this are not written down: they would be rows that nobody rents before the next report. */
const MAX_FREE_UNITS = 64

export function unitId(offerId: string, n: number): string {
  return `${offerId}.${n}`
}

/** The offer that a machine is a unit of. undefined: it is a machine of its own. */
export function offerOfUnit(machineId: string): string | undefined {
  return /^(.+)\.\d+$/.exec(machineId)?.[1]
}

export interface KnownUnit {
  readonly id: string
  readonly isRented: boolean
  /** Rented by an order that the engine has not confirmed yet, so that its count may still include this unit. */
  readonly isUnconfirmed: boolean
}

/** The units of an offer that exist or are on sale now. `available`: what the engine could still make; null: unknown. */
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
