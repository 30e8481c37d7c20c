/** How many requests of a minute were handed out to servers, by limited subject. */
import { sql } from 'kysely'
import { toDate, type Instant } from '../base/instant.ts'
import { at, type Db } from './database.ts'

export interface RateSlice {
  readonly granted: number
  /** Handed out to all servers in this minute, this slice included. */
  readonly taken: number
}

/**
 * Takes up to `slice` requests out of the minute's budget. The counter may be raised past the limit by the last slice;
 * that part is not granted, so all servers together are granted the limit at most.
 */
export async function takeRateSlice(
  db: Db,
  wish: { subject: string; minute: Instant; slice: number; limit: number },
): Promise<RateSlice> {
  const result = await sql<{ taken: number }>`
    insert into rate_window as w (subject, minute, taken)
    values (${wish.subject}, ${toDate(wish.minute)}, ${wish.slice}::integer)
    on conflict (subject, minute) do update set taken = w.taken + excluded.taken where w.taken < ${wish.limit}::integer
    returning taken`.execute(db)
  const taken = result.rows[0]?.taken
  if (taken === undefined) return { granted: 0, taken: wish.limit }
  const before = taken - wish.slice
  return { granted: Math.max(0, Math.min(wish.slice, wish.limit - before)), taken: Math.min(taken, wish.limit) }
}

export async function forgetRateWindows(db: Db, before: Instant): Promise<bigint> {
  const deleted = await db.deleteFrom('rate_window').where('minute', '<', at(before)).executeTakeFirst()
  return deleted.numDeletedRows
}
