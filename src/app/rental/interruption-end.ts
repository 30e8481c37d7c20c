/**
 * The end of an interruption: the rental is stopped, and then starts again when GPUs are free, or ends (rental-power.ts); the
 * order that was promised its GPUs begins to start.
 */
import type { Tx } from '../../store/platform/database.ts'
import { countClaims, endWaitForGpus, findOpenInterruption } from '../../store/rental/interruption.ts'
import { lockRental } from '../../store/rental/rental.ts'
import type { App } from '../app.ts'
import { beginStop } from './rental-power.ts'
import { failRental } from './rental.ts'

/** Tells a rental to end whose announced time is about to come: its host sends the signal at once, and kills later. */
export async function interruptNow(app: App, tx: Tx, rentalId: number): Promise<void> {
  const rental = await lockRental(tx, rentalId)
  if (rental?.status !== 'Running' || (await findOpenInterruption(tx.db, rentalId)) === undefined) return
  await beginStop(app, tx, rental, { reason: 'interrupted' })
}

/** The GPUs that a Pending rental was promised are its own. If one broke meanwhile, the order has failed. */
export async function receiveGpus(tx: Tx, rentalId: number): Promise<void> {
  const rental = await lockRental(tx, rentalId)
  if (rental?.status !== 'Pending' || rental.gpus_due_at === null) return
  const claims = await countClaims(tx, rentalId)
  await endWaitForGpus(tx, rentalId)
  if (claims.usable < rental.gpu_count) await failRental(tx, { ...rental, gpus_due_at: null }, 'no_capacity')
  else tx.wake.add('provision')
}
