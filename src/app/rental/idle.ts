/** Applies the idle rule of a rental. */
import type { IdleRule } from '../../contract/workload.ts'
import type { Tx } from '../../store/platform/database.ts'
import type { Rental } from '../../store/rental/rental.ts'
import type { App } from '../app.ts'
import { beginStop, powersOf, readTerm } from './rental-power.ts'
import { terminateRental } from './rental.ts'

/** A machine that cannot be stopped with its disk kept is left alone: idleness is no reason to delete data. */
export async function idleActionFor(app: App, tx: Tx, rental: Rental, rule: IdleRule): Promise<IdleRule['action']> {
  if (rule.action !== 'stop') return rule.action
  return powersOf(app, rental, await readTerm(tx, rental.id)).stop ? 'stop' : 'notify'
}

/** Ends or stops a locked, running rental. False: the rule only notifies. */
export async function endIdleRental(app: App, tx: Tx, rental: Rental, rule: IdleRule): Promise<boolean> {
  const action = await idleActionFor(app, tx, rental, rule)
  if (action === 'stop') await beginStop(app, tx, rental, { reason: 'idle' })
  if (action === 'terminate') await terminateRental(tx, rental, 'idle', tx.clock.now())
  return action !== 'notify'
}
