/** Reserved terms whose customers are to be told that they end. */
import { sql } from 'kysely'
import { addMs, DAY_MS, type Instant } from '../../base/instant.ts'
import { termWarningDays } from '../../domain/term-warning.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import { livingStates } from './state-list.ts'

export interface EndingTerm {
  readonly rentalId: number
  readonly n: number
  readonly endsAt: Instant
  readonly warnedDays: number | null
}

/** Lists terms of living rentals whose warning is due and not sent yet, soonest first. */
export async function listEndingTerms(db: Db, now: Instant, limit: number): Promise<EndingTerm[]> {
  const longest = addMs(now, Math.max(...termWarningDays) * DAY_MS)
  const { rows } = await sql<EndingTerm>`
    select t.rental_id as "rentalId", t.n, t.reservation_ends_at as "endsAt", t.warned_days as "warnedDays"
    from term t join rental r on r.id = t.rental_id
    where t.reservation_ends_at > ${at(now)} and t.reservation_ends_at <= ${at(longest)} and not t.closed
      and r.status in (${livingStates})
      and (t.warned_days is null or exists (
        select 1 from unnest(${[...termWarningDays]}::integer[]) as warning (days)
        where warning.days < t.warned_days
          and t.reservation_ends_at <= ${at(now)} + make_interval(days => warning.days)))
    order by t.reservation_ends_at limit ${limit}`.execute(db)
  return rows
}

/** False: another server has set it first. */
export async function setTermWarned(tx: Tx, term: EndingTerm, days: number): Promise<boolean> {
  const row = await tx.db
    .updateTable('term')
    .set({ warned_days: days })
    .where('rental_id', '=', term.rentalId)
    .where('n', '=', term.n)
    .where('warned_days', term.warnedDays === null ? 'is' : '=', term.warnedDays)
    .returning('n')
    .executeTakeFirst()
  return row !== undefined
}
