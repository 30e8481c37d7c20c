/** Turns to send a request to another cloud, by account and rate limit, for all servers together. */
import { sql } from 'kysely'
import { addMs, toDate, type Instant } from '../../base/instant.ts'
import { at, prepareAs, type Db } from '../platform/database.ts'

export interface TurnKey {
  readonly accountId: string
  readonly route: string
}

/** Returns when the next request can be sent; the one after it can be sent `everyMs` later. */
export async function reserveTurn(
  db: Db,
  { accountId, route }: TurnKey,
  everyMs: number,
  now: Instant,
): Promise<Instant> {
  const { rows } = await sql<{ next_at: Instant }>`${prepareAs('reserve_turn')}
    insert into provider_turn as t (provider_account_id, route, next_at)
    values (${accountId}, ${route}, ${toDate(addMs(now, everyMs))})
    on conflict (provider_account_id, route) do update
      set next_at = greatest(t.next_at, ${at(now)}) + ${everyMs} * interval '1 millisecond'
    returning next_at`.execute(db)
  return addMs(rows[0]?.next_at ?? now, rows[0] === undefined ? 0 : -everyMs)
}

/** No request is sent before `until`. */
export async function pauseTurns(db: Db, { accountId, route }: TurnKey, until: Instant): Promise<void> {
  await sql`
    insert into provider_turn as t (provider_account_id, route, next_at) values (${accountId}, ${route}, ${toDate(until)})
    on conflict (provider_account_id, route) do update set next_at = greatest(t.next_at, excluded.next_at)`.execute(db)
}
