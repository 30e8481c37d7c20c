/** Vouchers and their uses. The row of a voucher is locked before a use is counted, so that N uses are N. */
import { sql, type Selectable } from 'kysely'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type Voucher = Selectable<Tables['voucher']>

export interface NewVoucher {
  readonly id: string
  readonly codeHash: Buffer
  readonly codeEnd: string
  readonly amount: NanoUsd
  readonly uses: number
  readonly usesPerAccount: number
  /** null: there is no such time. */
  readonly redeemableUntil: Instant | null
  /** null: its credit does not expire. */
  readonly creditDays: number | null
  readonly note: string
  /** The key of the operator. */
  readonly createdBy: string
}

export async function insertVoucher(tx: Tx, voucher: NewVoucher): Promise<Voucher> {
  return tx.db
    .insertInto('voucher')
    .values({
      id: voucher.id,
      code_hash: voucher.codeHash,
      code_end: voucher.codeEnd,
      amount_nano: voucher.amount,
      uses: voucher.uses,
      uses_per_account: voucher.usesPerAccount,
      redeemable_until: toDateOrNull(voucher.redeemableUntil),
      credit_days: voucher.creditDays,
      note: voucher.note,
      created_by: voucher.createdBy,
      created_at: toDate(tx.clock.now()),
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Lists the newest first. */
export async function listVouchers(db: Db, limit: number): Promise<Voucher[]> {
  return db.selectFrom('voucher').selectAll().orderBy('created_at', 'desc').orderBy('id').limit(limit).execute()
}

export async function findVoucher(db: Db, id: string): Promise<Voucher | undefined> {
  return db.selectFrom('voucher').selectAll().where('id', '=', id).executeTakeFirst()
}

/** False: it was revoked before. */
export async function revokeVoucher(tx: Tx, id: string): Promise<boolean> {
  const row = await tx.db
    .updateTable('voucher')
    .set({ revoked_at: toDate(tx.clock.now()) })
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

export async function lockVoucher(tx: Tx, codeHash: Buffer): Promise<Voucher | undefined> {
  return tx.db.selectFrom('voucher').selectAll().where('code_hash', '=', codeHash).forUpdate().executeTakeFirst()
}

export async function countUses(db: Db, voucherId: string, accountId: string): Promise<number> {
  const row = await db
    .selectFrom('voucher_use')
    .select(sql<number>`count(*)::integer`.as('uses'))
    .where('voucher_id', '=', voucherId)
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  return row.uses
}

/** The caller has locked the voucher. `n`: the use of this account, from 1. */
export async function insertUse(
  tx: Tx,
  use: { readonly voucherId: string; readonly accountId: string; readonly n: number; readonly grantId: string },
): Promise<void> {
  await tx.db
    .updateTable('voucher')
    .set({ used: sql`used + 1` })
    .where('id', '=', use.voucherId)
    .execute()
  await tx.db
    .insertInto('voucher_use')
    .values({
      voucher_id: use.voucherId,
      account_id: use.accountId,
      n: use.n,
      grant_id: use.grantId,
      used_at: toDate(tx.clock.now()),
    })
    .execute()
}

/** Counts a try before its code is looked up. Returns its id. */
export async function insertTry(tx: Tx, accountId: string, network: string): Promise<bigint> {
  const row = await tx.db
    .insertInto('voucher_try')
    .values({ account_id: accountId, network, created_at: toDate(tx.clock.now()) })
    .returning('id')
    .executeTakeFirstOrThrow()
  return row.id
}

/** The code was right. */
export async function deleteTry(tx: Tx, id: bigint): Promise<void> {
  await tx.db.deleteFrom('voucher_try').where('id', '=', id).execute()
}

export async function countTries(tx: Tx, accountId: string, since: Instant): Promise<number> {
  const row = await tx.db
    .selectFrom('voucher_try')
    .select(sql<number>`count(*)::integer`.as('tries'))
    .where('account_id', '=', accountId)
    .where('created_at', '>', at(since))
    .executeTakeFirstOrThrow()
  return row.tries
}

export async function deleteTries(db: Db, before: Instant): Promise<void> {
  await db.deleteFrom('voucher_try').where('created_at', '<=', at(before)).execute()
}
