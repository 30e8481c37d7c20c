/**
 * Credit that was given: trials, vouchers, gifts. Grants are spent before paid money, what expires first before the rest;
 * schema/0090_credit_grants.sql derives what is left of each from charges and balances.
 */
import { sql, type Selectable } from 'kysely'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { post } from '../ledger/ledger.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type CreditGrant = Selectable<Tables['credit_grant']>

export interface NewGrant {
  readonly id: string
  readonly accountId: string
  readonly kind: CreditGrant['kind']
  readonly amount: NanoUsd
  readonly personId: string | null
  /** The card of a trial. */
  readonly cardFingerprint: string | null
  /** null: never. */
  readonly expiresAt: Instant | null
}

/** The posting of a grant that its own id makes unique. */
export interface GrantPosting {
  readonly memo: string
  readonly actor: string | null
  readonly reason: string | null
}

/** Credits a grant. False: it is a trial, and the person, the card or the account had one before. */
export async function insertGrant(tx: Tx, grant: NewGrant, { memo, actor, reason }: GrantPosting): Promise<boolean> {
  const key = `grant:${grant.id}`
  if (!(await recordGrant(tx, grant, key))) return false
  await post(tx, {
    key,
    kind: 'credit',
    accountId: grant.accountId,
    memo,
    actor,
    reason,
    transfers: [
      {
        from: { accountId: null, kind: 'adjustments' },
        to: { accountId: grant.accountId, kind: 'available' },
        amount: grant.amount,
      },
    ],
  })
  await settleGrants(tx, grant.accountId)
  return true
}

/** Writes the grant of a credit that is posted in the same transaction, before or after it. */
export async function recordGrant(tx: Tx, grant: NewGrant, postingKey: string): Promise<boolean> {
  await settleGrants(tx, grant.accountId)
  const expiresAt = toDateOrNull(grant.expiresAt)
  const row = await tx.db
    .insertInto('credit_grant')
    .values({
      id: grant.id,
      account_id: grant.accountId,
      kind: grant.kind,
      amount_nano: grant.amount,
      person_id: grant.personId,
      card_fingerprint: grant.cardFingerprint,
      posting_key: postingKey,
      granted_at: toDate(tx.clock.now()),
      expires_at: expiresAt,
      due_at: expiresAt,
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/** Counts what was spent of the account's grants so far. It locks the balances. */
export async function settleGrants(tx: Tx, accountId: string): Promise<void> {
  await sql`select settle_credit_grants(${accountId}, ${toDate(tx.clock.now())})`.execute(tx.db)
}

/** Adds up the rests of all grants of the account. */
export async function readUnspentGrants(db: Db, accountId: string): Promise<NanoUsd> {
  const { rows } = await sql<{ total: NanoUsd }>`
    select coalesce(sum(rest_nano), 0)::bigint as total from credit_grant_rests(${accountId})`.execute(db)
  return rows[0]?.total ?? zeroUsd
}

export interface GrantWithRest extends CreditGrant {
  readonly rest: NanoUsd
}

/** Lists the newest first, or the one with this id. */
export async function listGrants(db: Db, accountId: string, limit: number, id?: string): Promise<GrantWithRest[]> {
  const { rows } = await sql<GrantWithRest>`
    select g.*, coalesce(r.rest_nano, 0)::bigint as rest
    from credit_grant g left join credit_grant_rests(${accountId}) r on r.id = g.id
    where g.account_id = ${accountId} and ${id === undefined ? sql`true` : sql`g.id = ${id}`}
    order by g.granted_at desc, g.id limit ${limit}`.execute(db)
  return rows
}

/** Whether the person or the account had a trial. */
export async function hasTrial(
  db: Db,
  of: { readonly personId: string; readonly accountId: string },
): Promise<boolean> {
  const row = await db
    .selectFrom('credit_grant')
    .select('id')
    .where('kind', '=', 'trial')
    .where((where) => where.or([where('person_id', '=', of.personId), where('account_id', '=', of.accountId)]))
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** Lists grants that have expired, with a rest when they were last counted. */
export async function listDueGrants(db: Db, now: Instant, limit: number): Promise<CreditGrant[]> {
  return db
    .selectFrom('credit_grant')
    .selectAll()
    .where('due_at', '<=', at(now))
    .orderBy('due_at')
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** Takes back what is available of the rest of an expired grant. Returns what it took. */
export async function expireGrant(tx: Tx, id: string): Promise<NanoUsd> {
  const { rows } = await sql<{ taken: bigint }>`
    select expire_credit_grant(${id}, ${toDate(tx.clock.now())}) as taken`.execute(tx.db)
  return nanoUsdOf(rows[0]?.taken ?? 0n)
}
