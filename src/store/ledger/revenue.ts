/** Revenue of the installation: charges by day, and the price of everything that runs now. */
import { sql } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { Db } from '../platform/database.ts'

export interface RevenueDay {
  readonly day: string
  readonly machines: NanoUsd
  readonly storage: NanoUsd
  readonly models: NanoUsd
}

export interface Revenue {
  /** Every day, oldest first. */
  readonly days: readonly RevenueDay[]
  readonly runRatePerHour: NanoUsd
  readonly payingAccounts: number
}

const earned = (services: readonly string[]) => sql<NanoUsd>`coalesce(-sum(amount_nano)
  filter (where service = any (${services}::text[])), 0)::bigint`

export async function readRevenue(db: Db, now: Instant, days: number): Promise<Revenue> {
  const today = sql`(${toDate(now)} at time zone 'UTC')::date`
  const first = sql`${today} - ${days - 1}::integer`
  const [byDay, accounts, running] = await Promise.all([
    sql<RevenueDay>`
      select d.day::date::text as day, ${earned(['machines', 'other'])} as machines, ${earned(['storage'])} as storage,
        ${earned(['models'])} as models
      from generate_series(${first}, ${today}, interval '1 day') d (day)
      left join ledger_day l on l.day = d.day::date and l.kind in ('charge', 'refund')
      group by d.day order by d.day`.execute(db),
    sql<{ paying: number }>`
      select count(distinct account_id)::integer as paying from ledger_day
      where day between ${first} and ${today} and kind = 'charge'`.execute(db),
    sql<{ perHour: NanoUsd }>`
      select coalesce(sum(price_nano_per_hour), 0)::bigint as "perHour" from segment where ended_at is null`.execute(
      db,
    ),
  ])
  return {
    days: byDay.rows,
    payingAccounts: accounts.rows[0]?.paying ?? 0,
    runRatePerHour: running.rows[0]?.perHour ?? (0n as NanoUsd),
  }
}
