/** Idle detection: the rentals with a rule, and the idle state of each (schema/baseline/07_rental.sql). */
import { sql } from 'kysely'
import { toDateOrNull } from '../../base/instant.ts'
import type { IdleRule } from '../../contract/workload.ts'
import { inUse, type IdleState } from '../../domain/idle.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { Rental } from './rental.ts'

export interface WatchedRental {
  readonly rental: Rental
  readonly rule: IdleRule
  readonly state: IdleState
}

/** Lists running rentals with a rule, by id. */
export async function listWatchedRentals(db: Db, after: number, limit: number): Promise<WatchedRental[]> {
  const rentals = await db
    .selectFrom('rental')
    .selectAll()
    .where('status', '=', 'Running')
    .where('idle', 'is not', null)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute()
  if (rentals.length === 0) return []
  const rows = await db
    .selectFrom('rental_idle')
    .selectAll()
    .where(
      'rental_id',
      'in',
      rentals.map(({ id }) => id),
    )
    .execute()
  const states = new Map(
    rows.map((row): [number, IdleState] => [
      row.rental_id,
      { idleSince: row.idle_since, seenUntil: row.seen_until, notifiedAt: row.notified_at },
    ]),
  )
  return rentals.flatMap((rental) =>
    rental.idle === null ? [] : [{ rental, rule: rental.idle, state: states.get(rental.id) ?? inUse }],
  )
}

/** Saves all states of a pass in one statement. */
export async function saveIdleStates(
  db: Db | Tx['db'],
  states: ReadonlyArray<{ readonly rentalId: number; readonly state: IdleState }>,
): Promise<void> {
  if (states.length === 0) return
  await sql`
    insert into rental_idle (rental_id, idle_since, seen_until, notified_at)
    select * from unnest(${states.map(({ rentalId }) => rentalId)}::integer[],
      ${states.map(({ state }) => toDateOrNull(state.idleSince))}::timestamptz[],
      ${states.map(({ state }) => toDateOrNull(state.seenUntil))}::timestamptz[],
      ${states.map(({ state }) => toDateOrNull(state.notifiedAt))}::timestamptz[])
    on conflict (rental_id) do update set idle_since = excluded.idle_since, seen_until = excluded.seen_until,
      notified_at = excluded.notified_at`.execute(db)
}
