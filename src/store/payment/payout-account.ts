/** The rows that say where suppliers are paid. Details of bank accounts are sealed by the caller. */
import { sql, type Selectable } from 'kysely'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import type { Payee } from '../../domain/transfer.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { DueWork } from '../platform/due-work.ts'
import { hasDue, leaseDue, noLease, releaseLease, type Leased, type LeaseOptions } from '../platform/lease.ts'
import type { Tables } from '../platform/tables.ts'

export type PayoutAccount = Selectable<Tables['payout_account']>

const all = sql`true`

export async function findPayoutAccount(db: Db, accountId: string): Promise<PayoutAccount | undefined> {
  return db.selectFrom('payout_account').selectAll().where('account_id', '=', accountId).executeTakeFirst()
}

export async function lockPayoutAccount(tx: Tx, accountId: string): Promise<PayoutAccount | undefined> {
  return tx.db
    .selectFrom('payout_account')
    .selectAll()
    .where('account_id', '=', accountId)
    .forUpdate()
    .executeTakeFirst()
}

export async function findPayoutAccountOf(db: Db, payeeId: string): Promise<PayoutAccount | undefined> {
  return db.selectFrom('payout_account').selectAll().where('stripe_id', '=', payeeId).executeTakeFirst()
}

export interface NewDetails {
  readonly accountId: string
  readonly changedBy: string
}

/** A connected account that was made before is kept, and asked about no more. */
export async function saveBankDetails(
  tx: Tx,
  { accountId, changedBy }: NewDetails,
  bank: { readonly detailsSealed: string; readonly hint: string },
): Promise<void> {
  const change = {
    ...noLease,
    kind: 'bank' as const,
    details_sealed: bank.detailsSealed,
    hint: bank.hint,
    fingerprint: null,
    is_confirmed: true,
    changed_at: toDate(tx.clock.now()),
    changed_by: changedBy,
    due_at: null,
  }
  await tx.db
    .insertInto('payout_account')
    .values({ account_id: accountId, ...change })
    .onConflict((conflict) => conflict.column('account_id').doUpdateSet(change))
    .execute()
}

/** The supplier wants to be paid through the processor, whose account there may not be complete. */
export async function savePayee(
  tx: Tx,
  { accountId, changedBy }: NewDetails,
  payee: { readonly id: string; readonly isLive: boolean; readonly country: string | null },
): Promise<void> {
  const now = toDate(tx.clock.now())
  const change = {
    ...noLease,
    kind: 'stripe' as const,
    is_live: payee.isLive,
    stripe_id: payee.id,
    country: payee.country,
    details_sealed: null,
    hint: 'Stripe',
    fingerprint: null,
    is_confirmed: false,
    changed_at: now,
    changed_by: changedBy,
    due_at: now,
    attempts: 0,
  }
  await tx.db
    .insertInto('payout_account')
    .values({ account_id: accountId, ...change })
    .onConflict((conflict) => conflict.column('account_id').doUpdateSet(change))
    .execute()
  tx.wake.add('payments')
}

/** Writes what the processor says. `isChanged`: the bank account behind it is another one. */
export async function savePayeeFacts(tx: Tx, accountId: string, payee: Payee, isChanged: boolean): Promise<void> {
  await tx.db
    .updateTable('payout_account')
    .set({
      is_confirmed: payee.isConfirmed,
      country: payee.country,
      fingerprint: payee.fingerprint,
      hint: payee.last4 === null ? 'Stripe' : `Stripe …${payee.last4}`,
      ...(isChanged ? { changed_at: toDate(tx.clock.now()), changed_by: null } : {}),
    })
    .where('account_id', '=', accountId)
    .execute()
}

export async function wakePayoutAccount(tx: Tx, accountId: string): Promise<void> {
  await tx.db
    .updateTable('payout_account')
    .set({ due_at: toDate(tx.clock.now()), attempts: 0 })
    .where('account_id', '=', accountId)
    .where('kind', '=', 'stripe')
    .execute()
  tx.wake.add('payments')
}

export const hasDuePayoutAccount: DueWork = ({ now }) => hasDue('payout_account', all, now)

export async function leasePayoutAccounts(db: Db, options: LeaseOptions): Promise<Leased<PayoutAccount>> {
  return leaseDue(db, 'payout_account', all, options)
}

export async function releasePayoutAccount(
  db: Db,
  accountId: string,
  token: string,
  dueAt: Instant | null,
): Promise<boolean> {
  return releaseLease(db, 'payout_account', { account_id: accountId }, token, { due_at: toDateOrNull(dueAt) })
}

export interface Owner {
  readonly email: string
  readonly accountName: string
}

/** Lists everybody who may change where the account is paid. */
export async function listOwners(db: Db, accountId: string): Promise<Owner[]> {
  const { rows } = await sql<Owner>`
    select p.email, a.name as "accountName" from member m
    join person p on p.id = m.person_id
    join account a on a.id = m.account_id
    where m.account_id = ${accountId} and m.role = 'owner' order by p.id`.execute(db)
  return rows
}
