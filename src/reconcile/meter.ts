/**
 * Charges running rentals and volumes. A pass settles the due segments, one batch per transaction: it locks their
 * rentals and volumes, then the balances, plans each settlement (domain/metering.ts) and writes it. Time is charged only
 * up to the last time the engine showed the resource. A segment whose money runs out ends at that instant, and its
 * rental with it.
 */
import { addMs, earlier, later, SECOND_MS, type Instant } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { terminateRental } from '../app/rental.ts'
import { segmentMemo } from '../app/rental-event.ts'
import { recordVolumeEvent, volumeMemo } from '../app/volume.ts'
import { planSettlement } from '../domain/metering.ts'
import { transact, undoOnFailure, type Tx } from '../store/database.ts'
import { recordEvent } from '../store/event.ts'
import { lockAvailable } from '../store/ledger.ts'
import { lockRental } from '../store/rental.ts'
import {
  lockDueSegments,
  lockFunds,
  openSegmentOf,
  postponeSegment,
  settleSegment,
  type DueSegment,
} from '../store/segment.ts'
import { detach, lockVolume, moveVolume } from '../store/volume.ts'
import type { Reconciler } from './loop.ts'

const BATCH = 50
const MAX_RENTALS_PER_BATCH = 40
/** An engine whose last good list is older than this is unreachable; nothing is charged until it is back. */
const STALE_MS = 30_000
const STUCK_MS = 60_000

export function meter(app: App): Reconciler {
  return {
    name: 'meter',
    everyMs: SECOND_MS,
    run: async () => {
      const { settled, errors } = await transact(app.database, settleBatch)
      if (errors.length > 0) throw errors[0]
      return settled === BATCH
    },
  }
}

async function settleBatch(tx: Tx): Promise<{ settled: number; errors: unknown[] }> {
  const now = tx.clock.now()
  const due = await lockDueSegments(tx, { limit: BATCH, maxRentals: MAX_RENTALS_PER_BATCH })
  if (due.length === 0) return { settled: 0, errors: [] }
  // Suppliers too, because charges touch their earnings: all locks of the batch are taken here, in one order.
  await lockAvailable(
    tx,
    due.flatMap(({ account_id, supplier_id }) => (supplier_id === null ? [account_id] : [account_id, supplier_id])),
  )
  const errors: unknown[] = []
  for (const segment of due) {
    try {
      await undoOnFailure(tx, () => settleOne(tx, segment, now))
    } catch (error) {
      // One segment that cannot be settled must not stop everybody's meter: it waits, and the error is reported.
      await postponeSegment(tx, segment.id, addMs(now, STUCK_MS))
      errors.push(error)
    }
  }
  return { settled: due.length, errors }
}

async function settleOne(tx: Tx, segment: DueSegment, now: Instant): Promise<void> {
  const upTo = later(segment.settled_until, earlier(now, segment.proved_until ?? segment.settled_until))
  const plan = planSettlement(openSegmentOf(segment), await lockFunds(tx, segment), upTo)
  // A segment that is due but not proved yet is retried in a second, or later while its engine is unreachable.
  const stale = now - (segment.proved_until ?? segment.settled_until) > STALE_MS
  const dueAt = plan.endsAt === null ? later(plan.dueAt, addMs(now, stale ? STALE_MS : SECOND_MS)) : plan.dueAt
  if (stale && plan.charge === 0n && plan.topUp === 0n && plan.endsAt === null)
    return postponeSegment(tx, segment.id, dueAt)
  if (segment.rental_id !== null) {
    const rental = await lockRental(tx, segment.rental_id)
    if (rental === undefined) return
    await settleSegment(tx, segment, { ...plan, dueAt }, segmentMemo(rental)(segment))
    if (plan.endsAt === null || plan.endReason === null) return
    await terminateRental(tx, rental, plan.endReason, plan.endsAt)
    if (plan.endReason === 'balance_empty') recordBalanceEmpty(tx, segment.account_id)
    return
  }
  const volume = segment.volume_id === null ? undefined : await lockVolume(tx, segment.volume_id)
  if (volume === undefined) return
  await settleSegment(tx, segment, { ...plan, dueAt }, volumeMemo(volume))
  if (plan.endsAt === null) return
  if ((await moveVolume(tx, volume.id, 'suspended', { state_reason: plan.endReason })) === undefined) return
  // An unpaid volume keeps its data and loses its mounts.
  await detach(tx, { volumeId: volume.id })
  tx.wake.add('attachments')
  recordVolumeEvent(tx, volume, 'volume.suspended', { reason: plan.endReason })
  if (plan.endReason === 'balance_empty') recordBalanceEmpty(tx, segment.account_id)
}

function recordBalanceEmpty(tx: Tx, accountId: string): void {
  const isRecorded = tx.events.some((event) => event.type === 'balance.empty' && event.accountId === accountId)
  if (!isRecorded)
    recordEvent(tx, { accountId, type: 'balance.empty', subject: { kind: 'balance', id: accountId }, data: {} })
}
