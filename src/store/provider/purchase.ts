/** The cost of machines and volumes at other clouds: periods at one price, and their postings. */
import { sql, type Selectable } from 'kysely'
import { later, toDate, type Instant } from '../../base/instant.ts'
import { nanoUsdOf, type NanoUsd } from '../../base/money.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import { costDue } from '../../domain/purchase.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type Purchase = Selectable<Tables['purchase']>

/** The goods of a purchase: the machine of a rental, or a volume. */
export type PurchasedItem = { readonly noun: 'rental' | 'volume'; readonly id: number }

/** Lists purchases that run at the accounts of a driver. */
export async function listOpenPurchases(db: Db, driver: ProviderId, noun: PurchasedItem['noun']): Promise<Purchase[]> {
  return db
    .selectFrom('purchase as p')
    .innerJoin('provider_account as a', 'a.id', 'p.provider_account_id')
    .selectAll('p')
    .where('a.driver', '=', driver)
    .where('p.ended_at', 'is', null)
    .where(`p.${noun}_id`, 'is not', null)
    .orderBy('p.id')
    .execute()
}

export interface NewPurchase {
  readonly account: string
  readonly bought: PurchasedItem
  readonly externalId: string
  readonly perHour: NanoUsd
  readonly incrementMs: number
  readonly minimumMs: number
  readonly boughtAt: Instant
  readonly startedAt: Instant
}

/** Opens a purchase and returns its id. undefined: the machine has an open one. `account` is a name. */
export async function openPurchase(tx: Tx, purchase: NewPurchase): Promise<bigint | undefined> {
  const startedAt = toDate(purchase.startedAt)
  const { noun, id } = purchase.bought
  const [rentalId, volumeId] = noun === 'rental' ? [id, null] : [null, id]
  const { rows } = await sql<{ id: bigint }>`
    insert into purchase (provider_account_id, rental_id, volume_id, external_id, nano_per_hour, increment_ms, minimum_ms,
      bought_at, started_at, settled_until)
    select id, ${rentalId}, ${volumeId}, ${purchase.externalId}, ${purchase.perHour.toString()}::bigint,
      ${purchase.incrementMs}, ${purchase.minimumMs}, ${toDate(purchase.boughtAt)}, ${startedAt}, ${startedAt}
    from provider_account where name = ${purchase.account}
    on conflict (external_id) where ended_at is null do nothing
    returning id`.execute(tx.db)
  return rows[0]?.id
}

/** Finds out when the machine or volume was first bought. undefined: it never was. */
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

/**
 * Finds out when the item was requested from the provider. null: not known. undefined: this database has no such rental
 * or volume.
 */
export async function findAskedAt(db: Db, { noun, id }: PurchasedItem): Promise<Instant | null | undefined> {
  const row = await db.selectFrom(noun).select('create_asked_at').where('id', '=', id).executeTakeFirst()
  return row?.create_asked_at
}

/**
 * Posts the cost that is due up to `target`, or up to the last posting if that is later, and ends the purchase there if
 * `ends`. Returns the time up to which it is settled; undefined: it has ended before.
 */
export async function settlePurchase(
  tx: Tx,
  id: bigint,
  target: Instant,
  options: { readonly ends: boolean; readonly memo: string },
): Promise<Instant | undefined> {
  const row = await tx.db.selectFrom('purchase').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
  if (row === undefined || row.ended_at !== null) return undefined
  const until = later(target, row.settled_until)
  const n = row.settlements + 1
  const cost = costDue({ startedAt: row.started_at, pricePerHour: row.nano_per_hour, settled: row.settled_nano }, until)
  if (cost > 0n) {
    await sql`select ledger_cost(${`purchase:${id}:${n}`}, ${toDate(tx.clock.now())}, ${row.provider_account_id},
      ${row.rental_id}, ${row.volume_id}, ${cost.toString()}::bigint, ${options.memo})`.execute(tx.db)
  }
  await tx.db
    .updateTable('purchase')
    .set({
      settled_until: toDate(until),
      settled_nano: row.settled_nano + cost,
      settlements: n,
      ...(options.ends ? { ended_at: toDate(until) } : {}),
    })
    .where('id', '=', id)
    .execute()
  return until
}

/** Lists open purchases that were last settled before that time. */
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
  /** The account, the rental or the day, depending on the query. */
  readonly subject: string
  readonly revenue: NanoUsd
  readonly cost: NanoUsd
}

/**
 * Lists charges minus refunds of rentals and volumes at provider accounts, and their cost, by UTC day of the posting.
 * Days are inclusive.
 */
export async function listMargins(
  db: Db,
  query: {
    readonly by: 'provider' | 'rental' | 'day'
    readonly from: string
    readonly to: string
    readonly account?: string
    readonly limit: number
  },
): Promise<MarginRow[]> {
  const subject = {
    provider: sql`a.name`,
    rental: sql`coalesce(m.rental_id::text, 'volume ' || m.volume_id)`,
    day: sql`m.day::text`,
  }[query.by]
  const { rows } = await sql<{ subject: string; revenue: bigint; cost: bigint }>`
    with moved as (
      select provider_account_id, rental_id, volume_id, day, 0::bigint as revenue, cost_nano as cost from provider_cost
      union all
      select b.provider_account_id, b.rental_id, b.volume_id, d.day, -d.amount_nano, 0
      from ledger_day d
      -- A rental that had machines of two accounts was paid once: its revenue belongs to the last one.
      join (select distinct on (rental_id, volume_id) provider_account_id, rental_id, volume_id from purchase
            order by rental_id, volume_id, bought_at desc, id desc) b
        on d.rental_id = b.rental_id or d.volume_id = b.volume_id
      where d.kind in ('charge', 'refund'))
    select ${subject} as subject, sum(m.revenue)::bigint as revenue, sum(m.cost)::bigint as cost
    from moved m join provider_account a on a.id = m.provider_account_id
    where m.day between ${query.from}::date and ${query.to}::date
      and (${query.account ?? null}::text is null or a.name = ${query.account ?? null})
    group by 1 order by 1 limit ${query.limit}`.execute(db)
  return rows.map((row) => ({
    subject: row.subject,
    revenue: nanoUsdOf(row.revenue),
    cost: nanoUsdOf(row.cost),
  }))
}
