/** Events of accounts. `transact` writes those recorded in a transaction at its end. */
import { formatInstant, type Instant } from '../../base/instant.ts'
import type { EventRecord } from '../../contract/event.ts'
import type { EventType } from '../../contract/event-type.ts'
import type { NewEvent } from '../../domain/event.ts'
import type { Db, Tx } from '../platform/database.ts'

export function recordEvent(tx: Tx, event: NewEvent): void {
  tx.events.push(event)
}

export interface EventRow {
  id: bigint
  at: Instant
  type: EventType
  subject_kind: string
  subject_id: string
  data: Record<string, unknown>
}

export const eventColumns = ['id', 'at', 'type', 'subject_kind', 'subject_id', 'data'] as const

/** The newest come first. */
export async function listEvents(
  db: Db,
  accountId: string,
  query: { before?: bigint; type?: EventType; subject?: { kind: string; id: string }; limit: number },
): Promise<EventRecord[]> {
  let select = db.selectFrom('event').select(eventColumns).where('account_id', '=', accountId)
  if (query.before !== undefined) select = select.where('id', '<', query.before)
  if (query.type !== undefined) select = select.where('type', '=', query.type)
  if (query.subject !== undefined) {
    select = select.where('subject_kind', '=', query.subject.kind).where('subject_id', '=', query.subject.id)
  }
  const rows = await select.orderBy('id', 'desc').limit(query.limit).execute()
  return rows.map(eventRecord)
}

/** Followers read the oldest first. */
export async function listEventsAfter(db: Db, accountId: string, after: bigint, limit: number): Promise<EventRecord[]> {
  const rows = await db
    .selectFrom('event')
    .select(eventColumns)
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
