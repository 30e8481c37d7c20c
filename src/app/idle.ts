/** What an idle rule does to a rental. */
import type { IdleRule } from '../contract/workload.ts'
import type { Tx } from '../store/database.ts'
import type { Rental } from '../store/rental.ts'
import type { App } from './app.ts'
import { terminateRental } from './rental.ts'

/** A machine that cannot be stopped with its disk kept is left alone: idleness is no reason to delete data. */
export function whatHappens(_app: App, _rental: Rental, rule: IdleRule): IdleRule['action'] {
  return rule.action === 'stop' ? 'notify' : rule.action
}

/** False: the rule only notifies. */
export async function endIdleRental(app: App, tx: Tx, rental: Rental, rule: IdleRule): Promise<boolean> {
  if (whatHappens(app, rental, rule) !== 'terminate') return false
  await terminateRental(tx, rental, 'idle', tx.clock.now())
  return true
}
