/**
 * Sums of the ledger by day (`ledger_day`, written by a trigger): costs by group, and the statement by day. A charge or
 * refund belongs to exactly one group in every grouping, so the groups add up to the account's charges less refunds.
 */
import { sql, type RawBuilder } from 'kysely'
import type { NanoUsd } from '../../base/money.ts'
import type { CostGrouping, CostService, StatementDay } from '../../contract/cost.ts'
import type { RentalKind } from '../../domain/rental.ts'
import { balanceNow } from './billing.ts'
import type { Db } from '../platform/database.ts'

/** Days as `2026-11-14`, both included. */
export interface DayRange {
  readonly from: string
  readonly to: string
}

/** A refund names the rental, not the key that ordered it. */
const keyOf = sql`coalesce(nullif(d.api_key_id, ''), r.api_key_id, v.api_key_id)`
const resourceName = sql`coalesce(nullif(r.label, ''), r.name, v.label, nullif(d.model, ''), 'Other')`

/** SQL on the aliases d (ledger_day), r (rental), v (volume), k (api_key), m (member), u (person). */
const groupings: Record<CostGrouping, { id: RawBuilder<unknown>; name: RawBuilder<unknown> }> = {
  kind: { id: sql`d.service`, name: sql`d.service` },
  resource: {
    id: sql`case when r.id is not null then 'rental:' || r.id when v.id is not null then 'volume:' || v.id
      when d.model <> '' then 'model:' || d.model else 'other' end`,
    name: resourceName,
  },
  key: { id: sql`coalesce(${keyOf}, 'none')`, name: sql`coalesce(k.name, 'No key')` },
  label: {
    id: sql`coalesce('label:' || nullif(coalesce(r.label, v.label), ''), 'none')`,
    name: sql`coalesce(nullif(coalesce(r.label, v.label), ''), 'No label')`,
  },
  member: {
    id: sql`coalesce(r.person_id, v.person_id, k.person_id, 'none')`,
    name: sql`coalesce(m.name, u.name, u.email, 'No member')`,
  },
}

export interface CostCell {
  readonly day: string
  /** `rest`: all groups beyond the largest. */
  readonly id: string
  readonly name: string
  /** null: the cost is of several services. */
  readonly service: CostService | null
  readonly cost: NanoUsd
}

/** Returns one row per day and group: the `limit` largest groups, and all others as one. It reads the days of the range once. */
export async function sumCosts(
  db: Db,
  accountId: string,
  range: DayRange,
  groups: { by: CostGrouping; limit: number },
): Promise<CostCell[]> {
  const { id, name } = groupings[groups.by]
  const { rows } = await sql<CostCell>`
    with used as (
      select d.day, ${id} as id, min(${name}) as name, min(d.service) as least, max(d.service) as most,
             sum(-d.amount_nano) as cost
      from ledger_day d
      left join rental r on r.id = d.rental_id
      left join volume v on v.id = d.volume_id
      left join api_key k on k.public_id = ${keyOf}
      left join member m on m.account_id = d.account_id and m.person_id = coalesce(r.person_id, v.person_id, k.person_id)
      left join person u on u.id = m.person_id
      where d.account_id = ${accountId} and d.day between ${range.from}::date and ${range.to}::date
        and d.kind in ('charge', 'refund')
      group by 1, 2
    ), ranked as (
      select id, min(name) as name, min(least) as least, max(most) as most,
             row_number() over (order by sum(cost) desc, id) > ${groups.limit}::integer as is_rest
      from used group by id
    )
    select u.day::text as day, case when g.is_rest then 'rest' else u.id end as id,
           case when g.is_rest then 'Other' else min(g.name) end as name,
           case when min(g.least) = max(g.most) then min(g.least) end as service,
           sum(u.cost)::bigint as cost
    from used u join ranked g on g.id = u.id
    group by u.day, g.is_rest, 2
    order by u.day, 2`.execute(db)
  return rows
}

/** Sums up charges less refunds of one service. */
export async function sumService(db: Db, accountId: string, range: DayRange, service: CostService): Promise<NanoUsd> {
  const { rows } = await sql<{ cost: NanoUsd }>`
    select coalesce(sum(-amount_nano), 0)::bigint as cost from ledger_day
    where account_id = ${accountId} and day between ${range.from}::date and ${range.to}::date
      and kind in ('charge', 'refund') and service = ${service}`.execute(db)
  return rows[0]?.cost ?? (0n as NanoUsd)
}

/** Reads charges less refunds of the month with this first day. */
export async function readMonthSpend(db: Db, accountId: string, month: string): Promise<NanoUsd> {
  const row = await db
    .selectFrom('account_spend')
    .select('spent_nano')
    .where('account_id', '=', accountId)
    .where('month', '=', month)
    .executeTakeFirst()
  return row?.spent_nano ?? (0n as NanoUsd)
}

export interface StatementDayRow {
  readonly day: string
  readonly kind: StatementDay['kind']
  readonly service: CostService
  readonly rental_id: number
  readonly volume_id: number
  readonly model: string
  readonly amount: NanoUsd
  readonly postings: number
  readonly rental: { readonly kind: RentalKind; readonly name: string; readonly label: string | null } | null
  readonly volume_label: string | null
}

/**
 * The position of a line: days in order, and in a day money that came in before money that went out. So a balance after a
 * line is never below zero, although the lines of a day are sums.
 */
export type StatementDayPlace = Pick<StatementDayRow, 'day' | 'kind' | 'service' | 'rental_id' | 'volume_id' | 'model'>

const rankOf = (kind: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`case when ${kind} in ('charge', 'credit_repayment', 'payment_refund', 'dispute', 'debt_repayment') then 2 when ${kind} = 'adjustment' then 1 else 0 end`
const place = sql`d.day, ${rankOf(sql`d.kind`)}, d.kind, d.service, d.rental_id, d.volume_id, d.model`

function after(line: StatementDayPlace | undefined): RawBuilder<unknown> {
  if (line === undefined) return sql`true`
  const { day, kind, service, rental_id, volume_id, model } = line
  return sql`(${place}) > (${day}::date, ${rankOf(sql`${kind}::text`)}, ${kind}, ${service}, ${rental_id}::integer,
    ${volume_id}::integer, ${model})`
}

/** Lists one line per day, kind of posting and resource, oldest first. */
export async function listStatementDays(
  db: Db,
  accountId: string,
  range: DayRange,
  page: { after?: StatementDayPlace; limit: number },
): Promise<StatementDayRow[]> {
  const { rows } = await sql<StatementDayRow>`
    select d.*, case when r.id is not null
        then jsonb_build_object('kind', r.kind, 'name', r.name, 'label', r.label) end as rental,
      v.label as volume_label
    from (
      select d.day, d.kind, d.service, d.rental_id, d.volume_id, d.model,
             sum(d.amount_nano)::bigint as amount, sum(d.postings)::integer as postings
      from ledger_day d
      where d.account_id = ${accountId} and d.day between ${range.from}::date and ${range.to}::date
        and ${after(page.after)}
      group by 1, 2, 3, 4, 5, 6
      order by ${place}
      limit ${page.limit}
    ) d
    left join rental r on r.id = d.rental_id
    left join volume v on v.id = d.volume_id
    order by ${place}`.execute(db)
  return rows
}

/** The balance before `day`, or after the line `after` of a later day. Computed backwards from the current balance. */
export async function readBalanceBefore(
  db: Db,
  accountId: string,
  day: string,
  line?: StatementDayPlace,
): Promise<NanoUsd> {
  const { rows } = await sql<{ balance: NanoUsd }>`
    select (${balanceNow(accountId)} - coalesce(sum(d.amount_nano), 0))::bigint as balance
    from ledger_day d where d.account_id = ${accountId} and d.day >= ${day}::date and ${after(line)}`.execute(db)
  const row = rows[0]
  if (row === undefined) throw new Error('a sum gave no row')
  return row.balance
}
