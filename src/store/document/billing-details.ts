/** Whom the documents of an account are made out to, and what is known of its VAT ID. */
import { sql, type Selectable } from 'kysely'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import type { PostalAddress } from '../../domain/document.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { DueWork } from '../platform/due-work.ts'
import { hasDue, leaseDue, noLease, releaseLease, type Leased, type LeaseOptions } from '../platform/lease.ts'
import type { Tables } from '../platform/tables.ts'
import { addressColumns } from './seller.ts'

export type BillingDetails = Selectable<Tables['billing_details']>

export interface NewBillingDetails {
  readonly accountId: string
  readonly name: string
  readonly address: PostalAddress
  readonly vatId: string | null
  readonly poNumber: string | null
}

export async function findBillingDetails(db: Db, accountId: string): Promise<BillingDetails | undefined> {
  return db.selectFrom('billing_details').selectAll().where('account_id', '=', accountId).executeTakeFirst()
}

async function lockBillingDetails(tx: Tx, accountId: string): Promise<BillingDetails | undefined> {
  return tx.db
    .selectFrom('billing_details')
    .selectAll()
    .where('account_id', '=', accountId)
    .forUpdate()
    .executeTakeFirst()
}

/** A VAT ID that stays keeps its verdict; another one has to be checked. `due`: a loop is to look. */
export async function saveBillingDetails(tx: Tx, details: NewBillingDetails, isChecked: boolean): Promise<void> {
  const { accountId, name, address, vatId, poNumber } = details
  const now = toDate(tx.clock.now())
  const before = await lockBillingDetails(tx, accountId)
  const given = { name, ...addressColumns(address), po_number: poNumber, updated_at: now }
  const newId = {
    vat_id: vatId,
    vat_state: vatId === null ? null : ('pending' as const),
    vat_checked_by: null,
    vat_checked_at: null,
    check_customer_id: null,
    check_id: null,
    due_at: vatId !== null && isChecked ? now : null,
    attempts: 0,
    ...noLease,
  }
  const change = before?.vat_id === vatId ? given : { ...given, ...newId }
  if (before === undefined)
    await tx.db
      .insertInto('billing_details')
      .values({ account_id: accountId, ...given, ...newId })
      .execute()
  else
    await tx.db
      .updateTable('billing_details')
      .set({ ...change, version: sql<number>`version + 1` })
      .where('account_id', '=', accountId)
      .execute()
}

/** What somebody has found out about a VAT ID. False: the account has another one by now. */
export async function saveVatVerdict(
  tx: Tx,
  verdict: { accountId: string; vatId: string; state: 'verified' | 'unverified'; by: string },
): Promise<boolean> {
  const row = await tx.db
    .updateTable('billing_details')
    .set({
      vat_state: verdict.state,
      vat_checked_by: verdict.by,
      vat_checked_at: toDate(tx.clock.now()),
      due_at: null,
      version: sql<number>`version + 1`,
    })
    .where('account_id', '=', verdict.accountId)
    .where('vat_id', '=', verdict.vatId)
    .returning('account_id')
    .executeTakeFirst()
  return row !== undefined
}

/** The processor checks the VAT ID under these ids. */
export async function saveVatCheck(
  db: Db,
  { accountId, vatId, customerId, checkId }: { accountId: string; vatId: string; customerId: string; checkId: string },
): Promise<void> {
  await db
    .updateTable('billing_details')
    .set({ check_customer_id: customerId, check_id: checkId })
    .where('account_id', '=', accountId)
    .where('vat_id', '=', vatId)
    .execute()
}

/** A message names the check: it is looked at. */
export async function wakeVatCheck(tx: Tx, checkId: string): Promise<void> {
  await tx.db
    .updateTable('billing_details')
    .set({ ...noLease, due_at: toDate(tx.clock.now()) })
    .where('check_id', '=', checkId)
    .where('vat_state', '=', 'pending')
    .execute()
  tx.wake.add('vat-ids')
}

const all = sql`true`

export const hasDueVatId: DueWork = ({ now }) => hasDue('billing_details', all, now)

export async function leaseVatIds(db: Db, options: LeaseOptions): Promise<Leased<BillingDetails>> {
  return leaseDue(db, 'billing_details', all, options)
}

/** `dueAt` null: only an event, or an operator, makes a difference. */
export async function releaseVatId(db: Db, accountId: string, token: string, dueAt: Instant | null): Promise<boolean> {
  return releaseLease(db, 'billing_details', { account_id: accountId }, token, { due_at: toDateOrNull(dueAt) })
}

/** VAT IDs that nobody has checked, or that were not found, the oldest first. */
export async function listVatIds(db: Db, limit: number): Promise<BillingDetails[]> {
  return db
    .selectFrom('billing_details')
    .selectAll()
    .where('vat_id', 'is not', null)
    .orderBy(sql`vat_state = 'pending'`, 'desc')
    .orderBy('updated_at', 'desc')
    .orderBy('account_id')
    .limit(limit)
    .execute()
}

/** Which version of the details the processor's customer has. */
export async function readSyncedVersion(db: Db, customerId: string): Promise<number | null> {
  const row = await db
    .selectFrom('billing_profile')
    .select('details_version')
    .where('customer_id', '=', customerId)
    .executeTakeFirst()
  return row?.details_version ?? null
}

export async function saveSyncedVersion(db: Db, customerId: string, version: number): Promise<void> {
  await db
    .updateTable('billing_profile')
    .set({ details_version: version })
    .where('customer_id', '=', customerId)
    .execute()
}
