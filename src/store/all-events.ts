/**
 * The events of every account, in the order of their ids. Those of one account commit in that order; those of two do
 * not: the one with the higher id may be there first (see schema/0006_events.sql). So a reader who only remembered the
 * highest id would leave out what commits late.
 *
 * Whoever writes events takes an advisory lock before it is given ids, and holds it until its events can be seen. So an
 * id that is missing below one that is there either belongs to a transaction that holds such a lock right now, or was
 * rolled back and never comes. A reader who finds one missing waits until those who hold a lock at that moment are
 * done, and reads again: then nothing is missing that may still come. It does not wait for those who come after, since
 * their ids are higher than any that it has seen.
 */
import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import type { AccountEvent, EventType } from '../contract/event.ts'
import type { Db } from './database.ts'
import { eventColumns, eventRecord, type EventRow } from './event.ts'

/** Events are written last in their transaction, so their writers are mostly done at the next look. */
const LOOK_AGAIN_MS = 10
/** One who hangs for longer holds up the others no more than this at a time. */
const LOOKS = 200

/** Newest first. */
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

/** Oldest first, for followers. Never leaves one out that may still come; those after it wait for it. */
export async function listAllEventsAfter(db: Db, after: bigint, limit: number): Promise<AccountEvent[]> {
  const found = await readAfter(db, after, limit)
  const missing = found.findIndex((row, index) => row.id !== after + BigInt(index) + 1n)
  const last = found.at(-1)
  if (missing === -1 || last === undefined) return found.map(accountEvent)
  if (!(await writersAreDone(db))) return found.slice(0, missing).map(accountEvent)
  return (await readAfter(db, after, limit, last.id)).map(accountEvent)
}

/** All events up to this one can be seen, so that who follows after it misses none. undefined: a writer hangs. */
export async function newestEventId(db: Db): Promise<bigint | undefined> {
  const newest = await db.selectFrom('event').select('id').orderBy('id', 'desc').limit(1).executeTakeFirst()
  return (await writersAreDone(db)) ? (newest?.id ?? 0n) : undefined
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

/** Whether everyone who was writing events when this was asked has ended, one way or the other. */
async function writersAreDone(db: Db): Promise<boolean> {
  let writers = await listWriters(db)
  for (let look = 1; writers.length > 0; look += 1) {
    if (look > LOOKS) return false
    await setTimeout(LOOK_AGAIN_MS)
    const still = new Set(await listWriters(db))
    writers = writers.filter((writer) => still.has(writer))
  }
  return true
}

/** Transactions that hold an advisory lock. A server that migrates has one too, which costs a wait and no more. */
async function listWriters(db: Db): Promise<string[]> {
  const found = await sql<{ writer: string }>`
    select distinct virtualtransaction as writer from pg_locks
    where locktype = 'advisory' and granted
      and database = (select oid from pg_database where datname = current_database())`.execute(db)
  return found.rows.map((row) => row.writer)
}
