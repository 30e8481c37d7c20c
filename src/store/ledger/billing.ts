/**
 * Statements and usage from the ledger. A statement line is a posting that changes the total of the customer's money
 * (`available` plus `held`); holds and releases only move it between the two and are not lines.
 *
 * Balances in the past are computed backwards from the current one, so the newest page, which is the one people open,
 * reads only the rows it shows. Older ones, and sums over days, use the ledger's sums by day (`ledger_day`): busy accounts
 * have several postings of requests per second.
 */
import { sql, type RawBuilder } from 'kysely'
import { addMs, DAY_MS, HOUR_MS, instantOf, startOfDay, type Instant } from '../../base/instant.ts'
import { zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { PurchaseSource } from '../../contract/billing.ts'
import { at, type Database, type Db } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

/** Runs several reads on one snapshot of the database. */
export async function readSnapshot<T>(database: Database, read: (db: Db) => Promise<T>): Promise<T> {
  return database.db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only').execute(read)
}

function ownIds(accountId: string): RawBuilder<unknown> {
  return sql`array(select id from ledger_account where account_id = ${accountId} and kind in ('available', 'held'))`
}

/** The change is above zero if money came in. */
function balanceChange(accountId: string): RawBuilder<unknown> {
  const ledgerAccounts = ownIds(accountId)
  return sql`case when t.to_id = any (${ledgerAccounts}) then t.amount_nano else 0 end
    - case when t.from_id = any (${ledgerAccounts}) then t.amount_nano else 0 end`
}

/**
 * The account's lines, one row each, with their `amount`: for pages, which stop early. Use it as
 * `from ${lines(…)} line`; conditions on `at`, `id` and `kind` use the index.
 */
export function lines(accountId: string): RawBuilder<unknown> {
  const ledgerAccounts = ownIds(accountId)
  return sql`(
    select p.*, moved.amount
    from posting p
    cross join lateral (
      select sum(${balanceChange(accountId)})::bigint as amount
      from transfer t
      where t.posting_id = p.id and (t.to_id = any (${ledgerAccounts}) or t.from_id = any (${ledgerAccounts}))
      having count(*) > 0
    ) moved
    where p.account_id = ${accountId} and p.kind not in ('hold', 'release')
  )`
}

/** The same, one row per transfer: for sums, which read everything and are five times faster this way (300,000 lines: 0.5 s). */
export function lineTransfers(accountId: string): RawBuilder<unknown> {
  const ledgerAccounts = ownIds(accountId)
  return sql`(
    select p.*, ${balanceChange(accountId)} as amount
    from posting p join transfer t on t.posting_id = p.id
    where p.account_id = ${accountId} and p.kind not in ('hold', 'release')
      and (t.to_id = any (${ledgerAccounts}) or t.from_id = any (${ledgerAccounts}))
  )`
}

/** Finds the lines through the index `posting_but_inference`, past the many that are charges of requests. */
export const notInference: RawBuilder<unknown> = sql`(line.kind <> 'charge' or line.model is null)`

/** Sums up the account's money now, held or not. */
export function balanceNow(accountId: string): RawBuilder<NanoUsd> {
  return sql<NanoUsd>`(
    select sum(balance_nano)::bigint from ledger_account
    where account_id = ${accountId} and kind in ('available', 'held'))`
}

export interface StatementLine {
  readonly id: bigint
  readonly at: Instant
  readonly kind: Exclude<Tables['posting']['kind'], 'hold' | 'release' | 'cost' | 'fee'>
  readonly memo: string
  readonly amount: NanoUsd
  readonly balanceAfter: NanoUsd
  readonly rentalId: number | null
  readonly volumeId: number | null
  readonly reason: string | null
}

/** The position of a line in the statement. */
export interface StatementPlace {
  readonly at: Instant
  readonly id: bigint
}

/**
 * Sums up the changes by the lines from this one on: those of its day one by one, later days by their sums. A busy account has
 * hundreds of thousands of lines per month.
 */
function changeSince(accountId: string, place: StatementPlace): RawBuilder<unknown> {
  const nextDay = addMs(startOfDay(place.at), DAY_MS)
  return sql`(
    (select coalesce(sum(line.amount), 0) from ${lineTransfers(accountId)} line
     where (line.at, line.id) >= (${at(place.at)}, ${place.id.toString()}::bigint)
       -- Implied by the line above, but only this tells the planner how few lines they are.
       and line.at >= ${at(place.at)} and line.at < ${at(nextDay)})
    + (select coalesce(sum(d.amount_nano), 0) from ledger_day d
       where d.account_id = ${accountId} and d.day >= (${at(nextDay)} at time zone 'UTC')::date))`
}

/** The newest come first, each with the balance after it. */
export async function listStatement(
  db: Db,
  accountId: string,
  page: { before?: StatementPlace; limit: number },
): Promise<StatementLine[]> {
  const { before, limit } = page
  const place = before === undefined ? undefined : sql`(${at(before.at)}, ${before.id.toString()}::bigint)`
  const older = place === undefined ? sql`true` : sql`(line.at, line.id) < ${place}`
  const { rows } = await sql<StatementLine>`
    select line.id, line.at, line.kind, line.memo, line.amount, line.reason,
           line.rental_id as "rentalId", line.volume_id as "volumeId",
           (top.balance - coalesce(sum(line.amount) over (
             order by line.at desc, line.id desc rows between unbounded preceding and 1 preceding), 0)
           )::bigint as "balanceAfter"
    from (select ${balanceNow(accountId)} - ${before === undefined ? sql`0` : changeSince(accountId, before)} as balance) top,
         (select * from ${lines(accountId)} line where ${older}
          order by line.at desc, line.id desc limit ${limit}) line
    order by line.at desc, line.id desc`.execute(db)
  return rows
}

/** The posting key of an account's welcome credit, which tells it apart from other credits. */
export function welcomeKey(accountId: string): string {
  return `first-start:${accountId}`
}

export interface Purchase {
  readonly at: Instant
  readonly amount: NanoUsd
  readonly source: PurchaseSource
  readonly memo: string
}

/** Purchases, credits and refunds, newest first. */
export async function listPurchases(db: Db, accountId: string, limit: number): Promise<Purchase[]> {
  const { rows } = await sql<Purchase>`
    select line.at, line.amount, line.memo,
           case line.kind when 'purchase' then 'stripe_purchase' when 'refund' then 'refund'
             else case when line.key = ${welcomeKey(accountId)} then 'signup_promo' else 'operator_credit' end
           end as source
    from ${lines(accountId)} line
    where ${notInference} and line.kind in ('purchase', 'credit', 'refund') and line.amount > 0
    order by line.at desc, line.id desc limit ${limit}`.execute(db)
  return rows
}

export interface RequestCost {
  readonly requestId: string
  readonly cost: NanoUsd
}

/** Leaves out unknown ids, and those of other accounts. */
export async function readRequestCosts(
  db: Db,
  accountId: string,
  requestIds: readonly string[],
): Promise<RequestCost[]> {
  const ids = [...new Set(requestIds)]
  const costs = async (
    requestIds: readonly string[],
    span?: { from: Instant; until: Instant },
  ): Promise<RequestCost[]> => {
    if (requestIds.length === 0) return []
    let select = db.selectFrom('request').select(['request_id', 'cost_nano']).where('account_id', '=', accountId)
    if (span !== undefined) select = select.where('at', '>=', at(span.from)).where('at', '<', at(span.until))
    const rows = await select.where('request_id', 'in', requestIds).execute()
    return rows.map((row) => ({ requestId: row.request_id, cost: row.cost_nano }))
  }
  // The time in their ids leads to one or two weeks. Older ids have none, and are looked up in all of them.
  const recentCosts = await costs(ids, spanOf(ids))
  const recentIds = new Set(recentCosts.map((one) => one.requestId))
  return [...recentCosts, ...(await costs(ids.filter((id) => !recentIds.has(id))))]
}

/** A request takes a day at most; clocks of servers differ. */
const LONGEST_MS = DAY_MS + HOUR_MS
/** The year 2100: later times are random digits. */
const MAX_MS = 4_102_444_800_000

/** Returns the time in which these requests ended. undefined: none of the ids has a likely time. */
export function spanOf(requestIds: readonly string[]): { from: Instant; until: Instant } | undefined {
  const times = requestIds.flatMap((id) => {
    const digits = /^req_([0-9a-f]{12})/.exec(id)?.[1]
    return digits === undefined ? [] : [Number.parseInt(digits, 16)]
  })
  const likely = times.filter((ms) => ms < MAX_MS)
  if (likely.length === 0) return undefined
  return { from: instantOf(Math.min(...likely) - HOUR_MS), until: instantOf(Math.max(...likely) + LONGEST_MS) }
}

export type UsageGrouping = 'day' | 'model' | 'key' | 'rental'

export interface UsageGroup {
  readonly group: string
  readonly cost: NanoUsd
  readonly requests: number
}

/**
 * The group of a sum by day (d) and of a request. In every grouping each belongs to exactly one group, so that the groups add
 * up to the total spend.
 */
const groupings: Record<UsageGrouping, { posting: RawBuilder<string>; request: RawBuilder<string> }> = {
  day: {
    posting: sql`to_char(d.day, 'YYYY-MM-DD')`,
    request: sql`to_char(q.day, 'YYYY-MM-DD')`,
  },
  model: {
    posting: sql`case when d.rental_id > 0 then 'machines' when d.volume_id > 0 then 'storage' else 'other' end`,
    request: sql`q.model`,
  },
  key: {
    // A refund names the rental, not the key that ordered it.
    posting: sql`coalesce(nullif(d.api_key_id, ''), (select r.api_key_id from rental r where r.id = d.rental_id), 'no key')`,
    request: sql`coalesce(nullif(q.api_key_id, ''), 'no key')`,
  },
  rental: {
    posting: sql`case when d.rental_id > 0 then d.rental_id::text when d.volume_id > 0 then 'storage' else 'other' end`,
    request: sql`'inference'`,
  },
}

interface UsageQuery {
  readonly from: Instant
  readonly until: Instant
  readonly by: UsageGrouping
  readonly limit: number
}

/**
 * Whole UTC days. Machines and storage come from the ledger's sums by day, less refunds. Inference comes from the sums of
 * single requests, because postings are batches and would put a request into the day of its batch.
 */
function usedBy(accountId: string, usage: UsageQuery): RawBuilder<unknown> {
  const grouping = groupings[usage.by]
  const day = (instant: Instant): RawBuilder<unknown> => sql`(${at(instant)} at time zone 'UTC')::date`
  return sql`(
      select ${groupings.day.posting} as day, ${grouping.posting} as "group", -d.amount_nano as cost, 0::bigint as requests
      from ledger_day d
      where d.account_id = ${accountId} and d.day >= ${day(usage.from)} and d.day < ${day(usage.until)}
        and (d.kind = 'refund' or d.kind = 'charge' and (d.rental_id > 0 or d.volume_id > 0))
      union all
      select ${groupings.day.request}, ${grouping.request}, q.cost_nano, q.answered
      from request_day q
      where q.account_id = ${accountId} and q.day >= ${day(usage.from)} and q.day < ${day(usage.until)}
    )`
}

export async function sumUsage(
  db: Db,
  accountId: string,
  usage: UsageQuery,
): Promise<{ total: NanoUsd; groups: UsageGroup[] }> {
  const { rows } = await sql<UsageGroup & { total: NanoUsd }>`
    select "group", sum(cost)::bigint as cost, sum(requests)::integer as requests,
           (sum(sum(cost)) over ())::bigint as total
    from ${usedBy(accountId, usage)} used
    group by "group"
    order by ${usage.by === 'day' ? sql`"group"` : sql`cost desc, "group"`}
    limit ${usage.limit}`.execute(db)
  return {
    total: rows[0]?.total ?? zeroUsd,
    groups: rows.map(({ group, cost, requests }) => ({ group, cost, requests })),
  }
}

export interface UsageOfDay {
  readonly day: string
  readonly group: string
  readonly cost: NanoUsd
}

/** Returns a row for each group on each day. */
export async function sumUsageByDay(db: Db, accountId: string, usage: UsageQuery): Promise<UsageOfDay[]> {
  const { rows } = await sql<UsageOfDay>`
    select day, "group", sum(cost)::bigint as cost
    from ${usedBy(accountId, usage)} used
    group by day, "group"
    order by day, cost desc, "group"
    limit ${usage.limit}`.execute(db)
  return rows
}
