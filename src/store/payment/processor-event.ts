/** Messages of the processor: each is kept once, and handled until that succeeds. Also the alerts that they may raise. */
import { sql, type Selectable } from 'kysely'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import type { ProcessorMessage } from '../../domain/processor.ts'
import { notifyOperators } from '../notice/notification.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { DueWork } from '../platform/due-work.ts'
import { hasDue, leaseDue, releaseLease, type Leased, type LeaseOptions } from '../platform/lease.ts'
import type { Tables } from '../platform/tables.ts'

export type ProcessorEvent = Selectable<Tables['processor_event']>

const all = sql`true`

/** A message that comes again before it was handled is due at once. */
export async function receiveEvent(tx: Tx, message: ProcessorMessage): Promise<void> {
  const now = toDate(tx.clock.now())
  await sql`
    insert into processor_event as e (id, is_live, type, object_id, created_at, received_at, due_at)
    values (${message.id}, ${message.isLive}, ${message.type}, ${message.objectId}, ${toDate(message.at)}, ${now}, ${now})
    on conflict (id) do update set due_at = excluded.due_at where e.handled_at is null`.execute(tx.db)
  tx.wake.add('payments')
}

export const hasDueEvent: DueWork = ({ now }) => hasDue('processor_event', all, now)

export async function leaseEvents(db: Db, options: LeaseOptions): Promise<Leased<ProcessorEvent>> {
  return leaseDue(db, 'processor_event', all, options)
}

export async function finishEvent(db: Db, id: string, token: string, now: Instant): Promise<boolean> {
  return releaseLease(db, 'processor_event', { id }, token, { handled_at: toDate(now), due_at: null, last_error: null })
}

export async function postponeEvent(
  db: Db,
  id: string,
  token: string,
  dueAt: Instant,
  error: string,
): Promise<boolean> {
  return releaseLease(db, 'processor_event', { id }, token, {
    due_at: toDateOrNull(dueAt),
    last_error: error.slice(0, 500),
  })
}

export async function deleteEvents(db: Db, before: Instant, limit: number): Promise<number> {
  const { rows } = await sql`
    delete from processor_event where id in (
      select id from processor_event where received_at < ${at(before)} and handled_at is not null limit ${limit})
    returning 1`.execute(db)
  return rows.length
}

/** Lists the newest first. */
export async function listAlerts(
  db: Db,
  limit: number,
  kind?: PaymentAlert['kind'],
): Promise<Array<Selectable<Tables['payment_alert']>>> {
  let query = db.selectFrom('payment_alert').selectAll()
  if (kind !== undefined) query = query.where('kind', '=', kind)
  return query.orderBy('id', 'desc').limit(limit).execute()
}

export interface PaymentAlert {
  readonly kind: Tables['payment_alert']['kind']
  readonly subject: string
  readonly accountId: string | null
  readonly detail: string
}

/** Tells the operators, once per matter. */
export async function raiseAlert(tx: Tx, alert: PaymentAlert): Promise<void> {
  const row = await tx.db
    .insertInto('payment_alert')
    .values({
      kind: alert.kind,
      subject: alert.subject,
      account_id: alert.accountId,
      detail: alert.detail.slice(0, 1_000),
      at: toDate(tx.clock.now()),
    })
    .onConflict((conflict) => conflict.columns(['kind', 'subject']).doNothing())
    .returning('id')
    .executeTakeFirst()
  if (row === undefined) return
  await notifyOperators(tx, {
    kind: 'operator_payment',
    subject: { kind: 'payment', id: alert.subject },
    data: { alert: alert.kind, detail: alert.detail },
  })
}
