/** What accounts spend an hour against what they have, for runway warnings. */
import { sql } from 'kysely'
import { toDate, type Instant } from '../base/instant.ts'
import type { NanoUsd } from '../base/money.ts'
import type { Db, Tx } from './database.ts'

export interface Spending {
  readonly accountId: string
  readonly balance: NanoUsd
  readonly hourlySpend: NanoUsd
  readonly warnedH: number | null
}

/** Accounts that something runs for, or that were warned and may be clear again. */
export async function listSpending(db: Db, now: Instant): Promise<Spending[]> {
  const rows = await sql<{ account_id: string; balance: NanoUsd; hourly: NanoUsd; warned: number | null }>`
    select a.id as account_id, a.runway_warned_h as warned, coalesce(s.hourly, 0)::bigint as hourly,
      (l.balance - coalesce(s.accrued, 0))::bigint as balance
    from account a
    join lateral (select sum(balance_nano) as balance from ledger_account
                  where account_id = a.id and kind in ('available', 'held')) l on true
    left join (
      select g.account_id, sum(g.price_nano_per_hour) as hourly,
        sum(floor(g.price_nano_per_hour * greatest(0, extract(epoch from (
          greatest(g.settled_until, case when r.status = 'Unknown' then r.seen_at else ${toDate(now)}::timestamptz end) - g.started_at
        )) * 1000) / 3600000) - g.settled_nano) as accrued
      from segment g left join rental r on r.id = g.rental_id
      where g.ended_at is null group by g.account_id
    ) s on s.account_id = a.id
    where s.account_id is not null or a.runway_warned_h is not null`.execute(db)
  return rows.rows.map((row) => ({
    accountId: row.account_id,
    balance: row.balance,
    hourlySpend: row.hourly,
    warnedH: row.warned,
  }))
}

export async function setRunwayWarned(tx: Tx, account: Spending, hours: number | null): Promise<boolean> {
  const row = await tx.db
    .updateTable('account')
    .set({ runway_warned_h: hours })
    .where('id', '=', account.accountId)
    .where('runway_warned_h', account.warnedH === null ? 'is' : '=', account.warnedH)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}
