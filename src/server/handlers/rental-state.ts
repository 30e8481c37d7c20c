/** The state of a rental as the API shows it, besides the interface's `status`. */
import type { NanoUsd } from '../../base/money.ts'
import type { App } from '../../app/app.ts'
import { cpuOnlyPriceOf, powersOf, stoppedPriceOf } from '../../app/rental/rental-power.ts'
import { actionsOf } from '../../domain/rental.ts'
import type { Term } from '../../domain/term.ts'
import type { Rental } from '../../store/rental/rental.ts'

export function stateFields(app: App, rental: Rental, term: Term) {
  return { state: rental.status, actions: actionsOf(rental.status, powersOf(app, rental, term)) }
}

export function cpuOnlyFields(app: App, rental: Rental, term: Term) {
  const { stop } = powersOf(app, rental, term)
  return {
    cpuOnly: rental.cpu_nano_per_hour !== null,
    cpuOnlyCostPerHourUsd: stop ? cpuOnlyPriceOf(app, rental, term) : null,
  }
}

/** Returns the price of the disk while the rental is stopped. null: the rental cannot be stopped. */
export function stoppedCost(app: App, rental: Rental, term: Term): NanoUsd | null {
  return powersOf(app, rental, term).stop ? stoppedPriceOf(app, rental, term) : null
}
