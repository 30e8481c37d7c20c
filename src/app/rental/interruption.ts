/**
 * The announcement of an interruption: the GPUs of a rental are promised to another order at once, and its customer and its
 * programs are told. At the announced time it is stopped like any other (interruption-end.ts). What was announced is
 * carried out, even if the other order is withdrawn meanwhile.
 */
import { addMs, formatInstant, SECOND_MS, type Instant } from '../../base/instant.ts'
import type { OrderInterruption } from '../../domain/order.ts'
import { isFreeRun } from '../../domain/interruption.ts'
import { waiveSegment } from '../../store/ledger/segment.ts'
import type { Tx } from '../../store/platform/database.ts'
import { insertInterruption, listRunSegments, promiseGpus } from '../../store/rental/interruption.ts'
import { lockRentals, type Rental } from '../../store/rental/rental.ts'
import { recordRentalEvent, rentalMemo } from './rental-event.ts'

/** Interrupts locked rentals for a new one, and promises it their GPUs. */
export async function interruptFor(tx: Tx, rental: Rental, plan: OrderInterruption): Promise<Rental> {
  const { machineId, rentalIds: interrupted } = plan
  const dueAt = addMs(tx.clock.now(), plan.waitSeconds * SECOND_MS)
  const promised = await promiseGpus(tx, rental, { machineId, interrupted, dueAt })
  for (const one of await lockRentals(tx, interrupted)) await announce(tx, one, machineId)
  tx.wake.add('interrupt')
  return promised
}

async function announce(tx: Tx, rental: Rental, machineId: string): Promise<void> {
  const { interruption_notice_s: seconds, after_interruption: after } = rental
  if (seconds === null || after === null) throw new Error(`rental ${rental.id} cannot be interrupted`)
  const now = tx.clock.now()
  const endsAt = addMs(now, seconds * SECOND_MS)
  const isFree = await waiveRun(tx, rental, now)
  await insertInterruption(tx, rental, { machineId, endsAt, isFree })
  recordRentalEvent(tx, rental, 'rental.interrupting', {
    reason: 'interrupted',
    endsAt: formatInstant(endsAt),
    noticeSeconds: seconds,
    afterInterruption: after,
    free: isFree,
  })
}

/**
 * A rental that has just started costs nothing from its start to its end: its segments get the price zero, and what was
 * charged goes back. False: it has run for longer, or its supplier has been paid out meanwhile.
 */
async function waiveRun(tx: Tx, rental: Rental, now: Instant): Promise<boolean> {
  const segments = await listRunSegments(tx.db, rental.id)
  const [first] = segments
  if (first === undefined || !isFreeRun(first.started_at, now)) return false
  for (const segment of segments) {
    if (!(await waiveSegment(tx, segment, `Interrupted soon after its start: ${rentalMemo(rental)}`))) return false
  }
  tx.wake.add('meter')
  return true
}
