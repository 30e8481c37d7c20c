/** Events: written last in their transaction, under the account's event lock, with a delivery for each webhook. */
import { sql } from 'kysely'
import { formatInstant, toDate, type Instant } from '../base/instant.ts'
import type { EventRecord, EventType } from '../contract/event.ts'
import type { NewEvent } from '../domain/event.ts'
import type { Db, Tx } from './database.ts'

export function recordEvent(tx: Tx, event: NewEvent): void {
  tx.events.push(event)
}

export async function writeEvents(tx: Tx): Promise<void> {
  if (tx.events.length === 0) return
  const accounts = [...new Set(tx.events.map((event) => event.accountId))].sort()
  await sql`select pg_advisory_xact_lock(hashtextextended('event:' || account, 0))
            from (select account from unnest(${accounts}::text[]) account order by account) a`.execute(tx.db)
  const now = toDate(tx.clock.now())
  const written = await sql<{ deliveries: bigint }>`
    with given as (
      select * from unnest(
        ${tx.events.map((event) => event.accountId)}::text[],
        ${tx.events.map((event) => event.type)}::text[],
        ${tx.events.map((event) => event.subject.kind)}::text[],
        ${tx.events.map((event) => event.subject.id)}::text[],
        ${tx.events.map((event) => JSON.stringify(event.data))}::jsonb[]
      ) with ordinality as given (account_id, type, subject_kind, subject_id, data, n)
    ), written as (
      insert into event (account_id, at, type, subject_kind, subject_id, data)
      select account_id, ${now}, type, subject_kind, subject_id, data from given order by n
      returning id, account_id, type, subject_kind, subject_id
    ), delivered as (
      insert into webhook_delivery (id, webhook_id, event_id, due_at, created_at)
      select 'dlv_' || replace(gen_random_uuid()::text, '-', ''), w.id, e.id, ${now}, ${now}
      from written e
      join webhook w on w.account_id = e.account_id
      where case when e.type = 'webhook.test' then w.id = e.subject_id
                 else w.enabled and (w.event_types is null or e.type = any (w.event_types)) end
      returning id
    )
    select count(*) as deliveries from delivered`.execute(tx.db)
  if ((written.rows[0]?.deliveries ?? 0n) > 0n) tx.wake.add('deliver-webhooks')
  for (const account of accounts) tx.wake.add(`events:${account}`)
}

interface EventRow {
  id: bigint
  at: Instant
  type: EventType
  subject_kind: string
  subject_id: string
  data: Record<string, unknown>
}

const columns = ['id', 'at', 'type', 'subject_kind', 'subject_id', 'data'] as const

/** Newest first. */
export async function listEvents(
  db: Db,
  accountId: string,
  query: { before?: bigint; type?: EventType; subject?: { kind: string; id: string }; limit: number },
): Promise<EventRecord[]> {
  let select = db.selectFrom('event').select(columns).where('account_id', '=', accountId)
  if (query.before !== undefined) select = select.where('id', '<', query.before)
  if (query.type !== undefined) select = select.where('type', '=', query.type)
  if (query.subject !== undefined) {
    select = select.where('subject_kind', '=', query.subject.kind).where('subject_id', '=', query.subject.id)
  }
  const rows = await select.orderBy('id', 'desc').limit(query.limit).execute()
  return rows.map(eventRecord)
}

/** Oldest first, for followers. */
export async function listEventsAfter(db: Db, accountId: string, after: bigint, limit: number): Promise<EventRecord[]> {
  const rows = await db
    .selectFrom('event')
    .select(columns)
    .where('account_id', '=', accountId)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map(eventRecord)
}

export async function lastEventId(db: Db, accountId: string): Promise<bigint> {
  const row = await db
    .selectFrom('event')
    .select('id')
    .where('account_id', '=', accountId)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row?.id ?? 0n
}

export function eventRecord(row: EventRow): EventRecord {
  return {
    id: row.id.toString(),
    at: formatInstant(row.at),
    type: row.type,
    subject: { kind: row.subject_kind, id: row.subject_id },
    data: row.data,
  }
}
