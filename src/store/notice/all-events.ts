/**
 * The events of all accounts, in the order of their ids. Events of one account commit in that order; events of two
 * accounts may not (see schema/baseline/13_event.sql), so a reader that only remembers the highest id would miss one that
 * commits late.
 *
 * A writer takes an advisory lock before it gets ids, and holds it until its events are visible. So a gap in the ids
 * belongs either to a transaction that holds such a lock now, or to one that was rolled back. A reader that finds a gap
 * waits until the transactions that hold a lock at that moment have ended, and reads again: a gap that remains is
 * permanent. Later transactions do not matter, because their ids are higher.
 */
import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import type { AccountEvent } from '../../contract/event.ts'
import type { EventType } from '../../contract/event-type.ts'
import type { Db } from '../platform/database.ts'
import { eventColumns, eventRecord, type EventRow } from './event.ts'

/** Events are written last in their transaction, so most writers have ended at the next check. */
const POLL_MS = 10
/** A reader waits so long for a stuck writer before it returns what it has. */
const MAX_POLLS = 200

/** Lists the newest first. */
export async function listAllEvents(
  db: Db,
  query: { upTo: bigint; type?: EventType; accountId?: string; limit: number },
): Promise<AccountEvent[]> {
  let select = db.selectFrom('event').select(columns).where('id', '<=', query.upTo)
  if (query.type !== undefined) select = select.where('type', '=', query.type)
  if (query.accountId !== undefined) select = select.where('account_id', '=', query.accountId)
  const rows = await select.orderBy('id', 'desc').limit(query.limit).execute()
  return rows.map(accountEvent)
}

/** Lists the oldest first, for followers. Stops before a gap that may still be filled. */
export async function listAllEventsAfter(db: Db, after: bigint, limit: number): Promise<AccountEvent[]> {
  const events = await readAfter(db, after, limit)
  const gapIndex = events.findIndex((row, index) => row.id !== after + BigInt(index) + 1n)
  const last = events.at(-1)
  if (gapIndex === -1 || last === undefined) return events.map(accountEvent)
  if (!(await writersAreDone(db))) return events.slice(0, gapIndex).map(accountEvent)
  return (await readAfter(db, after, limit, last.id)).map(accountEvent)
}

/** All events up to this id are visible, so a follower that starts after it misses none. undefined: a writer is stuck. */
export async function newestEventId(db: Db): Promise<bigint | undefined> {
  const newest = await db.selectFrom('event').select('id').orderBy('id', 'desc').limit(1).executeTakeFirst()
  return (await writersAreDone(db)) ? (newest?.id ?? 0n) : undefined
}

/** The accounts that have events after this id. Complete up to the newest id that is known before it is called. */
export async function listAccountsWithEventsAfter(db: Db, after: bigint): Promise<string[]> {
  const rows = await db.selectFrom('event').select('account_id').distinct().where('id', '>', after).execute()
  return rows.map((row) => row.account_id)
}

const columns = [...eventColumns, 'account_id'] as const

function accountEvent(row: EventRow & { account_id: string }): AccountEvent {
  return { ...eventRecord(row), accountId: row.account_id }
}

function readAfter(db: Db, after: bigint, limit: number, upTo?: bigint) {
  let select = db.selectFrom('event').select(columns).where('id', '>', after)
  if (upTo !== undefined) select = select.where('id', '<=', upTo)
  return select.orderBy('id').limit(limit).execute()
}

/** Whether all transactions that were writing events at the call have committed or rolled back. */
async function writersAreDone(db: Db): Promise<boolean> {
  let writers = await listWriters(db)
  for (let poll = 1; writers.length > 0; poll += 1) {
    if (poll > MAX_POLLS) return false
    await setTimeout(POLL_MS)
    const still = new Set(await listWriters(db))
    writers = writers.filter((writer) => still.has(writer))
  }
  return true
}

/** Transactions that hold an advisory lock. A migration holds one too, which costs a wait and nothing else. */
async function listWriters(db: Db): Promise<string[]> {
  const { rows } = await sql<{ writer: string }>`
    select distinct virtualtransaction as writer from pg_locks
    where locktype = 'advisory' and granted
      and database = (select oid from pg_database where datname = current_database())`.execute(db)
  return rows.map((row) => row.writer)
}
