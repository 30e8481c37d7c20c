/** Requests per minute granted to servers, by rate-limited subject. */
import { sql } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { at, type Db } from '../platform/database.ts'

export interface RateSlice {
  readonly granted: number
  /** The number granted to all servers in this minute, including this slice. */
  readonly taken: number
}

/**
 * Takes up to `slice` requests from the minute's budget. The last slice may raise the counter past the limit, but that
 * part is not granted, so all servers together never exceed the limit.
 */
export async function takeRateSlice(
  db: Db,
  request: { subject: string; minute: Instant; slice: number; limit: number },
): Promise<RateSlice> {
  const result = await sql<{ taken: number }>`
    insert into rate_window as w (subject, minute, taken)
    values (${request.subject}, ${toDate(request.minute)}, ${request.slice}::integer)
    on conflict (subject, minute) do update set taken = w.taken + excluded.taken where w.taken < ${request.limit}::integer
    returning taken`.execute(db)
  const total = result.rows[0]?.taken
  if (total === undefined) return { granted: 0, taken: request.limit }
  const before = total - request.slice
  return {
    granted: Math.max(0, Math.min(request.slice, request.limit - before)),
    taken: Math.min(total, request.limit),
  }
}

export async function deleteRateWindows(db: Db, before: Instant): Promise<bigint> {
  const deleted = await db.deleteFrom('rate_window').where('minute', '<', at(before)).executeTakeFirst()
  return deleted.numDeletedRows
}
