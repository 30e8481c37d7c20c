/** Deliveries: one event on its way to one webhook. A pending delivery is sent even if the webhook is disabled. */
import { sql, type Selectable } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import type { EventRecord } from '../../contract/event.ts'
import type { EventType } from '../../contract/event-type.ts'
import type { DisabledReason } from '../../domain/webhook.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { DueWork } from '../platform/due-work.ts'
import { eventRecord } from './event.ts'
import { hasDue, isDue, leaseDue, noLease, releaseLease, type Leased } from '../platform/lease.ts'
import type { Tables } from '../platform/tables.ts'

export type Delivery = Selectable<Tables['webhook_delivery']>
export type DeliveryOfEvent = Delivery & { readonly event_type: EventType }

/** The newest come first. `before` is the last row of the previous page. */
export async function listDeliveries(
  db: Db,
  webhookId: string,
  query: { before?: { createdAt: Instant; id: string }; limit: number },
): Promise<DeliveryOfEvent[]> {
  let select = deliveries(db).where('d.webhook_id', '=', webhookId)
  if (query.before !== undefined) {
    const { createdAt, id } = query.before
    select = select.where(sql<boolean>`(d.created_at, d.id) < (${at(createdAt)}, ${id})`)
  }
  return select.orderBy('d.created_at', 'desc').orderBy('d.id', 'desc').limit(query.limit).execute()
}

export async function findDelivery(db: Db, accountId: string, id: string): Promise<DeliveryOfEvent | undefined> {
  return deliveries(db).where('e.account_id', '=', accountId).where('d.id', '=', id).executeTakeFirst()
}

/** Finds the delivery of a webhook's newest test. */
export async function findTestDelivery(db: Db, webhookId: string): Promise<DeliveryOfEvent | undefined> {
  return deliveries(db)
    .where('d.webhook_id', '=', webhookId)
    .where('e.type', '=', 'webhook.test')
    .orderBy('d.event_id', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** Makes it due now, with all attempts again. One that is being sent is left alone. */
export async function restartDelivery(tx: Tx, id: string): Promise<void> {
  const now = tx.clock.now()
  await tx.db
    .updateTable('webhook_delivery')
    .set({ state: 'pending', due_at: toDate(now), attempts: 0, ...noLease })
    .where('id', '=', id)
    .where((row) => row.or([row('lease_token', 'is', null), row('lease_until', '<=', at(now))]))
    .execute()
  tx.wake.add('deliver-webhooks')
}

/** Fails pending deliveries when their webhook is disabled. One that is being sent fails after this attempt. */
export async function dropDeliveries(tx: Tx, webhookId: string): Promise<void> {
  await tx.db
    .updateTable('webhook_delivery')
    .set({ state: 'failed', last_error: 'The webhook was disabled', ...noLease })
    .where('webhook_id', '=', webhookId)
    .where('state', '=', 'pending')
    .where((row) => row.or([row('lease_token', 'is', null), row('lease_until', '<=', at(tx.clock.now()))]))
    .execute()
}

const isPending = sql`t.state = 'pending'`

export interface DueDelivery {
  readonly id: string
  readonly webhookId: string
  readonly accountId: string
}

/** Lists deliveries that can be sent now, longest due first, without webhooks and accounts whose slots are used up. */
export async function listDueDeliveries(
  db: Db,
  query: { now: Instant; limit: number; busyWebhooks: readonly string[]; busyAccounts: readonly string[] },
): Promise<DueDelivery[]> {
  const { rows } = await sql<DueDelivery>`
    select t.id, t.webhook_id as "webhookId", w.account_id as "accountId"
    from webhook_delivery t
    join webhook w on w.id = t.webhook_id
    where ${isDue(isPending, at(query.now))}
      and t.webhook_id <> all (${query.busyWebhooks}::text[])
      and w.account_id <> all (${query.busyAccounts}::text[])
    order by t.due_at, t.id
    limit ${query.limit}`.execute(db)
  return rows
}

export const hasDueDelivery: DueWork = ({ now }) => hasDue('webhook_delivery', isPending, now)

export interface Outgoing {
  readonly id: string
  readonly attempts: number
  readonly webhookId: string
  readonly accountId: string
  readonly url: string
  readonly secretSealed: string
  readonly oldSecretSealed: string | null
  readonly oldSecretUntil: Instant | null
  readonly event: EventRecord
}

/**
 * Leases those of `ids` that are still pending, with all that sending needs. Deliveries that another server leased
 * first, or whose webhook was deleted meanwhile, are left out.
 */
export async function leaseDeliveries(
  db: Db,
  ids: readonly string[],
  options: { now: Instant; leaseMs: number },
): Promise<Leased<Outgoing>> {
  const where = sql`${isPending} and t.id = any (${ids}::text[])`
  const { token, rows } = await leaseDue(db, 'webhook_delivery', where, { ...options, limit: ids.length })
  const leasedIds = rows.map((row) => row.id)
  return { token, rows: leasedIds.length === 0 ? [] : await loadOutgoing(db, leasedIds) }
}

async function loadOutgoing(db: Db, ids: readonly string[]): Promise<Outgoing[]> {
  const rows = await db
    .selectFrom('webhook_delivery as d')
    .innerJoin('webhook as w', 'w.id', 'd.webhook_id')
    .innerJoin('event as e', 'e.id', 'd.event_id')
    .select(['d.id as delivery_id', 'd.attempts', 'd.webhook_id', 'w.account_id', 'w.url'])
    .select(['w.secret_sealed', 'w.old_secret_sealed', 'w.old_secret_until'])
    .select(['e.id', 'e.at', 'e.type', 'e.subject_kind', 'e.subject_id', 'e.data'])
    .where('d.id', 'in', ids)
    .execute()
  return rows.map((row) => ({
    id: row.delivery_id,
    attempts: row.attempts,
    webhookId: row.webhook_id,
    accountId: row.account_id,
    url: row.url,
    secretSealed: row.secret_sealed,
    oldSecretSealed: row.old_secret_sealed,
    oldSecretUntil: row.old_secret_until,
    event: eventRecord(row),
  }))
}

export interface Attempt {
  readonly at: Instant
  readonly status: number | null
  readonly error: string | null
}

interface LeasedDelivery {
  readonly id: string
  readonly token: string
}

/** Writes the last attempt. False: the lease was lost. */
export async function finishDelivery(
  db: Db,
  delivery: LeasedDelivery,
  state: 'delivered' | 'failed',
  attempt: Attempt,
): Promise<boolean> {
  return releaseLease(db, 'webhook_delivery', delivery, delivery.token, { state, ...lastOf(attempt) })
}

/** Writes an attempt that another will follow, unless the webhook was disabled meanwhile. */
export async function postponeDelivery(
  db: Db,
  delivery: LeasedDelivery,
  dueAt: Instant,
  attempt: Attempt,
): Promise<void> {
  const isEnabled = sql`(select w.enabled from webhook w where w.id = webhook_id)`
  await releaseLease(db, 'webhook_delivery', delivery, delivery.token, {
    state: sql`case when ${isEnabled} then 'pending' else 'failed' end`,
    due_at: toDate(dueAt),
    ...lastOf(attempt),
  })
}

/** Undoes the lease: this server stops, and another one may send it at once. */
export async function returnDelivery(db: Db, delivery: LeasedDelivery): Promise<void> {
  await releaseLease(db, 'webhook_delivery', delivery, delivery.token, { attempts: sql`attempts - 1` })
}

/** Counts deliveries that failed since the last success or change of the webhook, and says when the first of them did. */
export async function failureStreak(db: Db, webhookId: string): Promise<{ failed: number; since: Instant | null }> {
  const { rows } = await sql<{ failed: number; since: Instant | null }>`
    select count(*)::integer as failed, min(d.last_at) as since
    from webhook w
    join webhook_delivery d on d.webhook_id = w.id and d.state = 'failed'
    where w.id = ${webhookId}
      and d.last_at >= coalesce(w.updated_at, w.created_at)
      and d.last_at > coalesce((select max(last_at) from webhook_delivery
                                where webhook_id = w.id and state = 'delivered'), '-infinity')`.execute(db)
  return rows[0] ?? { failed: 0, since: null }
}

/** Disables a webhook for a reason that its owner sees. */
export async function disableWebhook(tx: Tx, webhookId: string, reason: DisabledReason): Promise<void> {
  const row = await tx.db
    .updateTable('webhook')
    .set({ enabled: false, disabled_reason: reason, updated_at: toDate(tx.clock.now()) })
    .where('id', '=', webhookId)
    .where('enabled', '=', true)
    .returning('id')
    .executeTakeFirst()
  if (row !== undefined) await dropDeliveries(tx, webhookId)
}

function deliveries(db: Db) {
  return db
    .selectFrom('webhook_delivery as d')
    .innerJoin('event as e', 'e.id', 'd.event_id')
    .selectAll('d')
    .select('e.type as event_type')
}

function lastOf(attempt: Attempt): { last_at: Date; last_status: number | null; last_error: string | null } {
  return { last_at: toDate(attempt.at), last_status: attempt.status, last_error: attempt.error }
}
