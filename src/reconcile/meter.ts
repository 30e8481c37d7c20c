/**
 * Charges what runs. A pass takes the stretches that are due, a batch a transaction: it locks what they belong to, then
 * the balances, plans each settlement (domain/metering.ts) and writes it. Time is charged only as far as the engine has
 * shown the thing. A stretch whose money has ended is closed at that instant and its rental ends.
 */
import { sql } from 'kysely'
import { addMs, earlier, later, SECOND_MS, toDate, type Instant } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { terminateRental } from '../app/rental.ts'
import { rentalMemo } from '../app/rental-event.ts'
import { recordVolumeEvent, volumeMemo } from '../app/volume.ts'
import { planSettlement } from '../domain/metering.ts'
import { transact, type Tx } from '../store/database.ts'
import { recordEvent } from '../store/event.ts'
import { lockAvailable } from '../store/ledger.ts'
import { lockRental } from '../store/rental.ts'
import { lockFunds, openSegmentOf, settleSegment, type Segment } from '../store/segment.ts'
import { detach, lockVolume, moveVolume } from '../store/volume.ts'
import type { Reconciler } from './loop.ts'

const BATCH = 50
/** Of a batch, so that many rentals do not keep volumes waiting. */
const RENTALS_OF_BATCH = 40
/** An engine whose last good list is older than this is away; until it is back there is nothing to charge. */
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

interface DueSegment extends Segment {
  /** Up to when the engine has shown it, and not past the end of its term: what comes after has another price. */
  readonly proved_until: Instant | null
}

async function settleBatch(tx: Tx): Promise<{ settled: number; errors: unknown[] }> {
  const now = tx.clock.now()
  const due = await lockDue(tx, now)
  if (due.length === 0) return { settled: 0, errors: [] }
  // Suppliers too, whose earnings the charges touch: all locks of the batch are taken here, in one order.
  await lockAvailable(
    tx,
    due.flatMap(({ account_id, supplier_id }) => (supplier_id === null ? [account_id] : [account_id, supplier_id])),
  )
  const errors: unknown[] = []
  for (const segment of due) {
    const told = tx.events.length
    await sql`savepoint one_segment`.execute(tx.db)
    try {
      await settleOne(tx, segment, now)
    } catch (error) {
      // One stretch that cannot be settled must not stop everybody's meter: it waits, and is told about.
      await sql`rollback to savepoint one_segment`.execute(tx.db)
      tx.events.length = told
      await postpone(tx, segment, addMs(now, STUCK_MS))
      errors.push(error)
    }
  }
  return { settled: due.length, errors }
}

/** Due stretches, their rentals and volumes locked; what another transaction has locked is left for the next pass. */
async function lockDue(tx: Tx, now: Instant): Promise<DueSegment[]> {
  const rentals = await sql<{ id: number }>`
    select r.id from rental r join segment s on s.rental_id = r.id
    where s.ended_at is null and s.due_at <= ${toDate(now)}
    order by s.due_at limit ${RENTALS_OF_BATCH} for update of r skip locked`.execute(tx.db)
  const volumes = await sql<{ id: number }>`
    select v.id from volume v join segment s on s.volume_id = v.id
    where s.ended_at is null and s.due_at <= ${toDate(now)}
    order by s.due_at limit ${BATCH - rentals.rows.length} for update of v skip locked`.execute(tx.db)
  const due = await sql<DueSegment>`
    select s.*, case
        when s.volume_id is not null then coalesce(lv.done_at, ${toDate(now)}::timestamptz)
        when r.status = 'Unknown' then least(r.seen_at, r.auto_terminate_at, t.reservation_ends_at)
        else least(l.done_at, r.auto_terminate_at, t.reservation_ends_at)
      end as proved_until
    from segment s
    left join rental r on r.id = s.rental_id
    left join loop l on l.name = 'observe:' || r.driver
    left join volume v on v.id = s.volume_id
    left join loop lv on lv.name = 'observe-volumes:' || v.driver
    left join lateral (select reservation_ends_at from term where rental_id = r.id order by n desc limit 1) t on true
    where s.ended_at is null and s.due_at <= ${toDate(now)}
      and (s.rental_id = any (${rentals.rows.map((row) => row.id)}) or s.volume_id = any (${volumes.rows.map((row) => row.id)}))
    order by s.account_id, s.id`.execute(tx.db)
  return due.rows
}

async function settleOne(tx: Tx, segment: DueSegment, now: Instant): Promise<void> {
  const upTo = later(segment.settled_until, earlier(now, segment.proved_until ?? segment.settled_until))
  const plan = planSettlement(openSegmentOf(segment), await lockFunds(tx, segment), upTo)
  // Something that is due but not proved yet is looked at again in a moment, or later when its engine is away.
  const stale = now - (segment.proved_until ?? segment.settled_until) > STALE_MS
  const dueAt = plan.endsAt === null ? later(plan.dueAt, addMs(now, stale ? STALE_MS : SECOND_MS)) : plan.dueAt
  if (stale && plan.charge === 0n && plan.topUp === 0n && plan.endsAt === null) return postpone(tx, segment, dueAt)
  if (segment.rental_id !== null) {
    const rental = await lockRental(tx, segment.rental_id)
    if (rental === undefined) return
    await settleSegment(tx, segment, { ...plan, dueAt }, rentalMemo(rental))
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
  // What is not paid for is not used: its data stays, its mounts go.
  await detach(tx, { volumeId: volume.id })
  tx.wake.add('attachments')
  recordVolumeEvent(tx, volume, 'volume.suspended', { reason: plan.endReason })
  if (plan.endReason === 'balance_empty') recordBalanceEmpty(tx, segment.account_id)
}

async function postpone(tx: Tx, segment: Segment, dueAt: Instant): Promise<void> {
  await tx.db
    .updateTable('segment')
    .set({ due_at: toDate(dueAt) })
    .where('id', '=', segment.id)
    .execute()
}

function recordBalanceEmpty(tx: Tx, accountId: string): void {
  const told = tx.events.some((event) => event.type === 'balance.empty' && event.accountId === accountId)
  if (!told)
    recordEvent(tx, { accountId, type: 'balance.empty', subject: { kind: 'balance', id: accountId }, data: {} })
}
