/** Money of the whole installation, for the operator's home page. */
import { sql } from 'kysely'
import { startOfMonth, toDate, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { Db } from '../platform/database.ts'

export interface MoneySummary {
  /** The sum over all accounts. */
  readonly balances: NanoUsd
  readonly held: NanoUsd
  /** The house owes this to suppliers. */
  readonly earnings: NanoUsd
  /** Charges less refunds of the current UTC day and month, and payments of the day. */
  readonly chargedToday: NanoUsd
  readonly chargedThisMonth: NanoUsd
  readonly paidInToday: NanoUsd
}

const sums = (kind: string) => sql<bigint>`coalesce(sum(balance_nano) filter (where kind = ${kind}), 0)::bigint`

export async function readMoneySummary(db: Db, now: Instant): Promise<MoneySummary> {
  const [balances, days, month] = await Promise.all([
    sql<{ available: NanoUsd; held: NanoUsd; earnings: NanoUsd }>`
      select ${sums('available')} as available, ${sums('held')} as held, ${sums('earnings')} as earnings
      from ledger_account where account_id is not null`.execute(db),
    sql<{ charged: NanoUsd; paid: NanoUsd }>`
      select coalesce(-sum(amount_nano) filter (where kind in ('charge', 'refund')), 0)::bigint as charged,
        coalesce(sum(amount_nano) filter (where kind = 'purchase'), 0)::bigint as paid
      from ledger_day where day = (${toDate(now)} at time zone 'UTC')::date`.execute(db),
    sql<{ spent: NanoUsd }>`
      select coalesce(sum(spent_nano), 0)::bigint as spent from account_spend
      where month = (${toDate(startOfMonth(now))} at time zone 'UTC')::date`.execute(db),
  ])
  const zero = 0n as NanoUsd
  const { available = zero, held = zero, earnings = zero } = balances.rows[0] ?? {}
  return {
    balances: (available + held) as NanoUsd,
    held,
    earnings,
    chargedToday: days.rows[0]?.charged ?? zero,
    paidInToday: days.rows[0]?.paid ?? zero,
    chargedThisMonth: month.rows[0]?.spent ?? zero,
  }
}
