/** Money moves through the SQL functions of schema/baseline/04_ledger.sql, called from here only. */
import { sql } from 'kysely'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import { formatUsd, type NanoUsd } from '../../base/money.ts'
import { writeAudit } from '../platform/audit.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

/** `insufficient`: a balance does not cover it, and nothing was written. */
export type PostAnswer = 'posted' | 'replayed' | 'insufficient'

export type LedgerKind = Tables['ledger_account']['kind']

/** A customer's account, or the house's when `accountId` is null. */
export interface LedgerRef {
  readonly accountId: string | null
  readonly kind: LedgerKind
}

export interface Posting {
  readonly key: string
  readonly kind:
    | 'purchase'
    | 'credit'
    | 'adjustment'
    | 'refund'
    | 'payout'
    | 'payout_return'
    | 'payment_refund'
    | 'dispute'
    | 'dispute_return'
    | 'fee'
  /** null: a fee of the processor, which is on nobody's statement. */
  readonly accountId: string | null
  readonly memo: string
  /** null: nobody asked for it, such as a chargeback. */
  readonly actor: string | null
  readonly reason: string | null
  readonly rentalId?: number
  readonly transfers: ReadonlyArray<{ from: LedgerRef; to: LedgerRef; amount: NanoUsd }>
}

export async function post(tx: Tx, posting: Posting): Promise<PostAnswer> {
  const refs = (side: 'from' | 'to') =>
    sql`array[${sql.join(posting.transfers.map((t) => sql`ledger_account_id(${t[side].accountId}, ${t[side].kind})`))}]::bigint[]`
  const outcome = answer(
    await sql<{ answer: PostAnswer }>`
      select ledger_post(${posting.key}, ${posting.kind}, ${toDate(tx.clock.now())}, ${posting.accountId},
        ${posting.memo}, ${posting.actor}, ${posting.reason}, ${posting.rentalId ?? null}::integer, null, null, null,
        ${refs('from')}, ${refs('to')}, ${posting.transfers.map((t) => t.amount.toString())}::bigint[]) as answer`.execute(
      tx.db,
    ),
  )
  if (outcome === 'posted' && posting.transfers.some(({ to }) => to.kind === 'available')) {
    await sql`select repay_credit(${`${posting.key}:repay`}, ${posting.accountId}, ${toDate(tx.clock.now())})`.execute(
      tx.db,
    )
  }
  return outcome
}

/** Moves money: available → held. */
export async function placeHold(
  tx: Tx,
  hold: { postingKey: string; holdKey: string; accountId: string; amount: NanoUsd; memo: string; expiresAt?: Instant },
): Promise<PostAnswer> {
  const now = toDate(tx.clock.now())
  if (hold.amount === 0n) {
    await tx.db
      .insertInto('hold')
      .values({ key: hold.holdKey, account_id: hold.accountId, amount_nano: 0n, created_at: now })
      .onConflict((conflict) => conflict.doNothing())
      .execute()
    return 'posted'
  }
  return answer(
    await sql<{ answer: PostAnswer }>`
      select ledger_hold(${hold.postingKey}, ${hold.holdKey}, ${now}, ${hold.accountId}, ${hold.amount.toString()}::bigint,
        ${hold.memo}, ${toDateOrNull(hold.expiresAt ?? null)}::timestamptz) as answer`.execute(tx.db),
  )
}

/** Moves all that remains in the hold: held → available. */
export async function releaseHold(tx: Tx, holdKey: string, postingKey: string, memo: string): Promise<void> {
  const owner = await tx.db.selectFrom('hold').select('account_id').where('key', '=', holdKey).executeTakeFirst()
  if (owner === undefined) return
  // Balances are locked before holds, as in the ledger's SQL functions; under that lock the amount cannot change.
  await lockAvailable(tx, [owner.account_id])
  const hold = await tx.db.selectFrom('hold').select('amount_nano').where('key', '=', holdKey).executeTakeFirstOrThrow()
  if (hold.amount_nano === 0n) return
  await sql`select ledger_release(${postingKey}, ${holdKey}, ${toDate(tx.clock.now())},
    ${hold.amount_nano.toString()}::bigint, ${memo})`.execute(tx.db)
}

/** Moves the amount that the hold has above `keep`: held → available. */
export async function releaseExcess(
  tx: Tx,
  hold: { holdKey: string; accountId: string; keep: NanoUsd; postingKey: string; memo: string },
): Promise<void> {
  await lockAvailable(tx, [hold.accountId])
  const row = await tx.db
    .selectFrom('hold')
    .select('amount_nano')
    .where('key', '=', hold.holdKey)
    .executeTakeFirstOrThrow()
  const excess = row.amount_nano - hold.keep
  if (excess <= 0n) return
  await sql`select ledger_release(${hold.postingKey}, ${hold.holdKey}, ${toDate(tx.clock.now())},
    ${excess.toString()}::bigint, ${hold.memo})`.execute(tx.db)
}

export interface Charge {
  readonly postingKey: string
  readonly holdKey: string
  readonly amount: NanoUsd
  readonly memo: string
  readonly supplierId: string | null
  readonly supplierAmount: NanoUsd
  readonly rentalId: number | null
  readonly volumeId: number | null
  readonly apiKeyId: string | null
  /** The charge is for inference by this model. */
  readonly model?: string
}

/** Moves money: held → revenue, and on to the supplier. */
export async function chargeHold(tx: Tx, charge: Charge): Promise<void> {
  if (charge.amount === 0n) return
  const result = answer(
    await sql<{ answer: PostAnswer }>`
      select ledger_charge(${charge.postingKey}, ${charge.holdKey}, ${toDate(tx.clock.now())},
        ${charge.amount.toString()}::bigint, ${charge.memo}, ${charge.supplierId}, ${charge.supplierAmount.toString()}::bigint,
        ${charge.rentalId}::integer, ${charge.volumeId}::integer, ${charge.apiKeyId}, ${charge.model ?? null}) as answer`.execute(
      tx.db,
    ),
  )
  // The hold was sized to cover it; if it does not, the ledger is wrong and nothing may be written.
  if (result === 'insufficient') throw new Error(`hold ${charge.holdKey} does not cover its charge`)
}

/** Undoes a part of a charge: revenue → held, with the supplier's share of it. */
export async function takeBackCharge(
  tx: Tx,
  charge: Omit<Charge, 'volumeId' | 'apiKeyId' | 'model'>,
): Promise<PostAnswer> {
  if (charge.amount === 0n) return 'posted'
  return answer(
    await sql<{ answer: PostAnswer }>`
      select ledger_uncharge(${charge.postingKey}, ${charge.holdKey}, ${toDate(tx.clock.now())},
        ${charge.amount.toString()}::bigint, ${charge.memo}, ${charge.supplierId}, ${charge.supplierAmount.toString()}::bigint,
        ${charge.rentalId}::integer) as answer`.execute(tx.db),
  )
}

function answer(result: { rows: Array<{ answer: PostAnswer }> }): PostAnswer {
  const row = result.rows[0]
  if (row === undefined) throw new Error('the ledger returned no row')
  return row.answer
}

export interface Balances {
  readonly available: NanoUsd
  readonly held: NanoUsd
  readonly earnings: NanoUsd
}

export async function readBalances(db: Db, accountId: string): Promise<Balances> {
  const rows = await db
    .selectFrom('ledger_account')
    .select(['kind', 'balance_nano'])
    .where('account_id', '=', accountId)
    .execute()
  const of = (kind: LedgerKind) => rows.find((row) => row.kind === kind)?.balance_nano ?? (0n as NanoUsd)
  return { available: of('available'), held: of('held'), earnings: of('earnings') }
}

/** Locks the balances of the accounts, in the order that every posting uses, and returns the available ones. */
export async function lockAvailable(tx: Tx, accountIds: readonly string[]): Promise<Map<string, NanoUsd>> {
  const rows = await tx.db
    .selectFrom('ledger_account')
    .select(['account_id', 'kind', 'balance_nano'])
    .where('account_id', 'in', [...new Set(accountIds)])
    .orderBy('id')
    .forUpdate()
    .execute()
  const available = new Map<string, NanoUsd>()
  for (const row of rows) {
    if (row.kind === 'available' && row.account_id !== null)
      available.set(row.account_id, row.balance_nano ?? (0n as NanoUsd))
  }
  return available
}

/** Releases expired holds. The release of a gateway's purse is written to the audit log. */
export async function releaseExpiredHolds(tx: Tx, limit: number): Promise<number> {
  const now = toDate(tx.clock.now())
  const candidates = await sql<{ key: string; account_id: string }>`
    select key, account_id from hold where expires_at <= ${now} and amount_nano > 0
    order by account_id, key limit ${limit}`.execute(tx.db)
  if (candidates.rows.length === 0) return 0
  const keys = candidates.rows.map((row) => row.key)
  await lockAvailable(
    tx,
    candidates.rows.map((row) => row.account_id),
  )
  // They are read again under the lock, in the common lock order of holds: some may have been renewed meanwhile.
  const holds = await sql<{ key: string; account_id: string; amount_nano: NanoUsd; gateway_id: string | null }>`
    select h.key, h.account_id, h.amount_nano, p.gateway_id from hold h left join purse p on p.hold_key = h.key
    where h.key = any (${keys}::text[]) and h.expires_at <= ${now} and h.amount_nano > 0
    order by h.account_id, h.key for update of h`.execute(tx.db)
  for (const { key, account_id, amount_nano, gateway_id } of holds.rows) {
    await releaseHold(tx, key, `expire:${key}:${tx.clock.now()}`, 'Hold expired unused')
    if (gateway_id === null) continue
    await writeAudit(tx, {
      actor: 'sweep-expired',
      action: 'purse.expired',
      accountId: account_id,
      subject: key,
      reason: 'The gateway did not renew it in time',
      detail: { gateway: gateway_id, amountUsd: formatUsd(amount_nano) },
    })
  }
  return candidates.rows.length
}
