/**
 * Purses of gateways: calls of the functions in schema/baseline/16_purse.sql. A purse is a hold that expires, so a
 * gateway that never comes back leaves only a row behind.
 */
import { sql } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { PurseOwner } from '../../domain/purse.ts'
import { at, type Db, type Tx } from '../platform/database.ts'

export async function touchGateway(db: Db, gatewayId: string, now: Instant): Promise<void> {
  await db
    .insertInto('gateway')
    .values({ id: gatewayId, seen_at: toDate(now) })
    .onConflict((conflict) => conflict.column('id').doUpdateSet({ seen_at: toDate(now) }))
    .execute()
}

export async function countGateways(db: Db, seenSince: Instant): Promise<number> {
  const row = await db
    .selectFrom('gateway')
    .select(sql<number>`count(*)::integer`.as('gateways'))
    .where('seen_at', '>', at(seenSince))
    .executeTakeFirstOrThrow()
  return row.gateways
}

/** Lists the gateways seen since then that have money of the account. */
export async function listPurseHolders(db: Db, accountId: string, seenSince: Instant): Promise<string[]> {
  const rows = await db
    .selectFrom('purse as p')
    .innerJoin('hold as h', 'h.key', 'p.hold_key')
    .innerJoin('gateway as g', 'g.id', 'p.gateway_id')
    .select('p.gateway_id')
    .distinct()
    .where('p.account_id', '=', accountId)
    .where('h.amount_nano', '>', zeroUsd)
    .where('g.seen_at', '>', at(seenSince))
    .execute()
  return rows.map((row) => row.gateway_id)
}

export interface TopUp {
  readonly outcome: 'granted' | 'balance' | 'key_limit' | 'budget'
  readonly hold_key: string
  readonly amount: NanoUsd
}

/** It is one statement, so it needs no transaction. */
export async function topUpPurse(
  db: Db,
  gatewayId: string,
  owner: PurseOwner,
  request: { maximum: NanoUsd; minimum: NanoUsd; now: Instant; expiresAt: Instant },
): Promise<TopUp> {
  const { rows } = await sql<TopUp>`
    select * from top_up_purse(${gatewayId}, ${owner.accountId}, ${owner.apiKeyId}, ${request.maximum.toString()}::bigint,
      ${request.minimum.toString()}::bigint, ${toDate(request.now)}, ${toDate(request.expiresAt)})`.execute(db)
  const row = rows[0]
  if (row === undefined) throw new Error('the purse returned no row')
  return row
}

/** No purse holds more. */
const MAX_NANO = 9_223_372_036_854_775_807n

export async function giveBackPurse(
  db: Db,
  holdKey: string,
  amount: NanoUsd,
  { now, expiresAt }: { now: Instant; expiresAt: Instant },
): Promise<void> {
  const upTo = amount > MAX_NANO ? MAX_NANO : amount
  await sql`
    select give_back_purse(${holdKey}, ${upTo.toString()}::bigint, ${toDate(now)}, ${toDate(expiresAt)})`.execute(db)
}

/** Returns the number of emptied purses; at the limit there may be more. */
export async function releasePurses(db: Db, gatewayId: string, now: Instant, limit: number): Promise<number> {
  const { rows } = await sql<{ purses: number }>`
    select release_purses(${gatewayId}, ${toDate(now)}, ${limit}::integer) as purses`.execute(db)
  return rows[0]?.purses ?? 0
}

/** Holds are locked in the common order. A released purse is not revived. */
export async function renewPurses(
  db: Db,
  holdKeys: readonly string[],
  { now, expiresAt }: { now: Instant; expiresAt: Instant },
): Promise<void> {
  await sql`
    with living as (
      select key from hold where key = any (${holdKeys}::text[]) and expires_at > ${at(now)}
      order by account_id, key for update
    )
    update hold h set expires_at = greatest(h.expires_at, ${at(expiresAt)}) from living where h.key = living.key`.execute(
    db,
  )
}

export async function readPurses(db: Db, holdKeys: readonly string[]): Promise<Map<string, NanoUsd>> {
  if (holdKeys.length === 0) return new Map()
  const rows = await db.selectFrom('hold').select(['key', 'amount_nano']).where('key', 'in', holdKeys).execute()
  return new Map(rows.map((row) => [row.key, row.amount_nano]))
}

/** Deletes gateways unseen for long, with their empty purses; a gateway that still holds money stays. */
export async function deleteGateways(tx: Tx, seenBefore: Instant, limit: number): Promise<number> {
  const { rows } = await sql<{ hold_key: string }>`
    delete from purse where hold_key in (
      select p.hold_key from purse p join gateway g on g.id = p.gateway_id join hold h on h.key = p.hold_key
      where g.seen_at < ${at(seenBefore)} and h.amount_nano = 0
      order by h.account_id, h.key limit ${limit} for update of h)
    returning hold_key`.execute(tx.db)
  const keys = rows.map((row) => row.hold_key)
  if (keys.length > 0)
    await tx.db.deleteFrom('hold').where('key', 'in', keys).where('amount_nano', '=', zeroUsd).execute()
  await sql`
    delete from gateway g where g.seen_at < ${at(seenBefore)}
      and not exists (select 1 from purse p where p.gateway_id = g.id)`.execute(tx.db)
  return keys.length
}
