/**
 * Charges running rentals and volumes. A pass settles the due segments, one batch per transaction: it locks their
 * rentals and volumes, then the balances, plans each settlement (domain/metering.ts) and writes it. Time is charged only
 * up to the last time the provider showed the resource. A segment whose money runs out ends at that instant, and its
 * rental with it.
 *
 * Most segments simply go on: those of rentals without limits are planned and written together. The others, and all of
 * them if that fails, are settled one by one.
 */
import { addMs, earlier, later, SECOND_MS, type Instant } from '../base/instant.ts'
import { nanoUsdOf, type NanoUsd } from '../base/money.ts'
import type { App } from '../app/app.ts'
import { terminateRental } from '../app/rental/rental.ts'
import { segmentMemo } from '../app/rental/rental-event.ts'
import { recordVolumeEvent, volumeMemo } from '../app/rental/volume.ts'
import { planSettlement, type Funds, type Settlement } from '../domain/metering.ts'
import { transact, undoOnFailure, type Tx } from '../store/platform/database.ts'
import { recordEvent } from '../store/notice/event.ts'
import { lockAvailable } from '../store/ledger/ledger.ts'
import { lockRental } from '../store/rental/rental.ts'
import {
  hasDueSegment,
  lockDueSegments,
  lockFunds,
  openSegmentOf,
  postponeSegment,
  settleSegment,
  type DueSegment,
} from '../store/ledger/segment.ts'
import { readPlainRentals, settleSegments, type PlannedSettlement } from '../store/ledger/segment-batch.ts'
import { detach, lockVolume, moveVolume } from '../store/volume/volume.ts'
import type { Reconciler } from './loop.ts'

const BATCH = 125
const MAX_RENTALS_PER_BATCH = 100
/** A provider whose last good list is older than this is unreachable; nothing is charged until it is back. */
const STALE_MS = 30_000
const STUCK_MS = 60_000

export function meter(app: App): Reconciler {
  return {
    name: 'meter',
    due: hasDueSegment,
    run: async () => {
      const { isFull, errors } = await transact(app.database, (tx) => settleBatch(app, tx))
      if (errors.length > 0) throw errors[0]
      return isFull
    },
  }
}

async function settleBatch(app: App, tx: Tx): Promise<{ isFull: boolean; errors: unknown[] }> {
  const now = tx.clock.now()
  const due = await lockDueSegments(tx, { limit: BATCH, maxRentals: MAX_RENTALS_PER_BATCH })
  if (due.length === 0) return { isFull: false, errors: [] }
  const rentals = due.filter(({ rental_id }) => rental_id !== null).length
  const isFull = due.length === BATCH || rentals === MAX_RENTALS_PER_BATCH
  // Suppliers are locked too, because charges touch their earnings: all locks of the batch are taken here, in one
  // order.
  const available = await lockAvailable(
    tx,
    due.flatMap(({ account_id, supplier_id }) => (supplier_id === null ? [account_id] : [account_id, supplier_id])),
  )
  const settled = await settleTogether(app, tx, due, available, now)
  const errors: unknown[] = []
  for (const segment of due) {
    if (settled.has(segment.id)) continue
    try {
      await undoOnFailure(tx, () => settleOne(tx, segment, now))
    } catch (error) {
      // One segment that cannot be settled must not stop everybody's meter: it waits, and the error is reported.
      await postponeSegment(tx, segment.id, addMs(now, STUCK_MS))
      errors.push(error)
    }
  }
  return { isFull, errors }
}

/** Settles together the segments that continue and whose rentals have no limits; returns their ids. */
async function settleTogether(
  app: App,
  tx: Tx,
  due: readonly DueSegment[],
  available: ReadonlyMap<string, NanoUsd>,
  now: Instant,
): Promise<ReadonlySet<bigint>> {
  const rentals = await readPlainRentals(
    tx.db,
    due.flatMap(({ id, rental_id }) => (rental_id === null ? [] : [id])),
  )
  const balances = new Map(available)
  const planned = due.flatMap((segment): PlannedSettlement[] => {
    const rental = rentals.get(segment.id)
    const balance = balances.get(segment.account_id)
    if (rental === undefined || balance === undefined) return []
    const { held, api_key_id: apiKeyId } = rental
    const plan = planDue(segment, { held, available: balance, committed: false, allowance: null }, now)
    if (plan === undefined || plan.endsAt !== null) return []
    balances.set(segment.account_id, nanoUsdOf(balance - plan.topUp))
    return [{ segment, plan, apiKeyId, memo: segmentMemo(rental)(segment) }]
  })
  if (planned.length === 0) return new Set()
  try {
    await undoOnFailure(tx, () => settleSegments(tx, planned))
  } catch (error) {
    // The failing segment is found, and its error reported, when each is settled alone.
    app.warn?.(error, 'a batch of charges failed; charging them one by one')
    return new Set()
  }
  return new Set(planned.map(({ segment }) => segment.id))
}

/** undefined: nothing is charged while the provider is unreachable. */
function planDue(segment: DueSegment, funds: Funds, now: Instant): Settlement | undefined {
  const upTo = later(segment.settled_until, earlier(now, segment.proved_until ?? segment.settled_until))
  const plan = planSettlement(openSegmentOf(segment), funds, upTo)
  // A segment that is due but not proved yet is retried in a second, or later while its provider is unreachable.
  const stale = now - (segment.proved_until ?? segment.settled_until) > STALE_MS
  if (stale && plan.charge === 0n && plan.topUp === 0n && plan.endsAt === null) return undefined
  const retryAt = addMs(now, stale ? STALE_MS : SECOND_MS)
  return { ...plan, dueAt: plan.endsAt === null ? later(plan.dueAt, retryAt) : plan.dueAt }
}

async function settleOne(tx: Tx, segment: DueSegment, now: Instant): Promise<void> {
  const plan = planDue(segment, await lockFunds(tx, segment), now)
  if (plan === undefined) return postponeSegment(tx, segment.id, addMs(now, STALE_MS))
  if (segment.rental_id !== null) {
    const rental = await lockRental(tx, segment.rental_id)
    if (rental === undefined) return
    await settleSegment(tx, segment, plan, segmentMemo(rental)(segment))
    if (plan.endsAt === null || plan.endReason === null) return
    await terminateRental(tx, rental, plan.endReason, plan.endsAt)
    if (plan.endReason === 'balance_empty') recordBalanceEmpty(tx, segment.account_id)
    return
  }
  const volume = segment.volume_id === null ? undefined : await lockVolume(tx, segment.volume_id)
  if (volume === undefined) return
  await settleSegment(tx, segment, plan, volumeMemo(volume))
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
