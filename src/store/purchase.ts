/** What machines of other clouds cost us: periods at one price, and their postings. */
import { sql, type Selectable } from 'kysely'
import { toDate, type Instant } from '../base/instant.ts'
import { nanoUsdOf, type NanoUsd } from '../base/money.ts'
import type { ProviderId } from '../contract/provider-data.ts'
import { costDue } from '../domain/purchase.ts'
import { at, type Db, type Tx } from './database.ts'
import type { Tables } from './tables.ts'

export type Purchase = Selectable<Tables['purchase']>

/** Those that run, at the accounts of a driver. */
export async function listOpenPurchases(db: Db, driver: ProviderId): Promise<Purchase[]> {
  return db
    .selectFrom('purchase as p')
    .innerJoin('provider_account as a', 'a.id', 'p.provider_account_id')
    .selectAll('p')
    .where('a.driver', '=', driver)
    .where('p.ended_at', 'is', null)
    .orderBy('p.id')
    .execute()
}

export interface NewPurchase {
  readonly account: string
  readonly rentalId: number
  readonly externalId: string
  readonly perHour: NanoUsd
  readonly incrementMs: number
  readonly minimumMs: number
  readonly boughtAt: Instant
  readonly startedAt: Instant
}

/** No effect if the machine has an open one. `account`: its name. */
export async function openPurchase(tx: Tx, purchase: NewPurchase): Promise<void> {
  const startedAt = toDate(purchase.startedAt)
  await sql`
    insert into purchase (provider_account_id, rental_id, external_id, nano_per_hour, increment_ms, minimum_ms,
      bought_at, started_at, settled_until)
    select id, ${purchase.rentalId}, ${purchase.externalId}, ${purchase.perHour.toString()}::bigint,
      ${purchase.incrementMs}, ${purchase.minimumMs}, ${toDate(purchase.boughtAt)}, ${startedAt}, ${startedAt}
    from provider_account where name = ${purchase.account}
    on conflict (external_id) where ended_at is null do nothing`.execute(tx.db)
}

/** When the machine was first bought. undefined: it never was. */
export async function findBoughtAt(db: Db, externalId: string): Promise<Instant | undefined> {
  const row = await db
    .selectFrom('purchase')
    .select('bought_at')
    .where('external_id', '=', externalId)
    .orderBy('id')
    .limit(1)
    .executeTakeFirst()
  return row?.bought_at
}

/** Posts what is due up to `until`, and ends the purchase there if `ends`. */
export async function settlePurchase(
  tx: Tx,
  id: bigint,
  until: Instant,
  options: { readonly ends: boolean; readonly memo: string },
): Promise<void> {
  const row = await tx.db.selectFrom('purchase').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
  if (row === undefined || row.ended_at !== null || until < row.settled_until) return
  const n = row.settlements + 1
  const due = costDue({ startedAt: row.started_at, pricePerHour: row.nano_per_hour, settled: row.settled_nano }, until)
  if (due > 0n) {
    await sql`select ledger_cost(${`purchase:${id}:${n}`}, ${toDate(tx.clock.now())}, ${row.provider_account_id},
      ${row.rental_id}, ${due.toString()}::bigint, ${options.memo})`.execute(tx.db)
  }
  await tx.db
    .updateTable('purchase')
    .set({
      settled_until: toDate(until),
      settled_nano: row.settled_nano + due,
      settlements: n,
      ...(options.ends ? { ended_at: toDate(until) } : {}),
    })
    .where('id', '=', id)
    .execute()
}

/** Open purchases that were last settled before that time. */
export async function listUnsettledPurchases(db: Db, before: Instant, limit: number): Promise<Purchase[]> {
  return db
    .selectFrom('purchase')
    .selectAll()
    .where('ended_at', 'is', null)
    .where('settled_until', '<', at(before))
    .orderBy('settled_until')
    .limit(limit)
    .execute()
}

export interface MarginRow {
  /** The account, the rental or the day, as asked for. */
  readonly subject: string
  readonly revenue: NanoUsd
  readonly cost: NanoUsd
}

/**
 * Charges less refunds of rentals at provider accounts, and what they cost, by UTC day of the posting. Days are
 * inclusive.
 */
export async function listMargins(
  db: Db,
  wanted: {
    readonly by: 'provider' | 'rental' | 'day'
    readonly from: string
    readonly to: string
    readonly account?: string
    readonly limit: number
  },
): Promise<MarginRow[]> {
  const subject = { provider: sql`a.name`, rental: sql`m.rental_id::text`, day: sql`m.day::text` }[wanted.by]
  const found = await sql<{ subject: string; revenue: bigint; cost: bigint }>`
    with moved as (
      select provider_account_id, rental_id, day, 0::bigint as revenue, cost_nano as cost from provider_cost
      union all
      select b.provider_account_id, d.rental_id, d.day, -d.amount_nano, 0
      from ledger_day d
      join (select distinct provider_account_id, rental_id from purchase) b on b.rental_id = d.rental_id
      where d.kind in ('charge', 'refund'))
    select ${subject} as subject, sum(m.revenue)::bigint as revenue, sum(m.cost)::bigint as cost
    from moved m join provider_account a on a.id = m.provider_account_id
    where m.day between ${wanted.from}::date and ${wanted.to}::date
      and (${wanted.account ?? null}::text is null or a.name = ${wanted.account ?? null})
    group by 1 order by 1 limit ${wanted.limit}`.execute(db)
  return found.rows.map((row) => ({
    subject: row.subject,
    revenue: nanoUsdOf(row.revenue),
    cost: nanoUsdOf(row.cost),
  }))
}

/** What was posted for each machine of an account, in all. */
export async function readPurchaseTotals(db: Db, accountId: string): Promise<Map<string, NanoUsd>> {
  const found = await sql<{ external_id: string; nano: bigint }>`
    select external_id, sum(settled_nano)::bigint as nano from purchase
    where provider_account_id = ${accountId} group by 1`.execute(db)
  return new Map(found.rows.map(({ external_id, nano }) => [external_id, nanoUsdOf(nano)]))
}
