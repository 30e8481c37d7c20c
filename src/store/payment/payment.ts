/** Payments, and the account as the processor knows it. What they do to the ledger is in payment-posting.ts. */
import { sql } from 'kysely'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { DueWork } from '../platform/due-work.ts'
import { hasDue, leaseDue, noLease, releaseLease, type Leased, type LeaseOptions } from '../platform/lease.ts'
import type { Payment } from './payment-posting.ts'

const all = sql`true`

export interface NewCheckout {
  readonly id: string
  readonly accountId: string
  /** null: Berth asks, in place of an automatic payment. */
  readonly personId: string | null
  readonly confirmsId?: string
  readonly isLive: boolean
  readonly amount: NanoUsd
  readonly savesCard: boolean
  readonly dueAt: Instant
  readonly expiresAt: Instant
}

export async function insertCheckout(tx: Tx, checkout: NewCheckout): Promise<void> {
  await tx.db
    .insertInto('payment')
    .values({
      id: checkout.id,
      account_id: checkout.accountId,
      person_id: checkout.personId,
      confirms_id: checkout.confirmsId ?? null,
      is_live: checkout.isLive,
      kind: 'checkout',
      state: 'open',
      amount_nano: checkout.amount,
      saves_card: checkout.savesCard,
      due_at: toDate(checkout.dueAt),
      created_at: toDate(tx.clock.now()),
      expires_at: toDate(checkout.expiresAt),
    })
    .execute()
}

export async function findPayment(db: Db, id: string, accountId?: string): Promise<Payment | undefined> {
  let query = db.selectFrom('payment').selectAll().where('id', '=', id)
  if (accountId !== undefined) query = query.where('account_id', '=', accountId)
  return query.executeTakeFirst()
}

/** Lists the newest first, of one account or of all. */
export async function listPayments(db: Db, limit: number, accountId?: string): Promise<Payment[]> {
  let query = db.selectFrom('payment').selectAll()
  if (accountId !== undefined) query = query.where('account_id', '=', accountId)
  return query.orderBy('created_at', 'desc').orderBy('id').limit(limit).execute()
}

export interface Taken {
  readonly refunded: NanoUsd
  readonly disputed: NanoUsd
}

/** Credit that went back, by payment. Those of which nothing did are absent. */
export async function listTaken(db: Db, ids: readonly string[]): Promise<Map<string, Taken>> {
  const { rows } = await sql<Taken & { id: string }>`
    select id, coalesce(sum(refunded), 0)::bigint as refunded, coalesce(sum(disputed), 0)::bigint as disputed from (
      select payment_id as id, amount_nano as refunded, 0 as disputed from payment_refund where state <> 'failed'
      union all
      select payment_id, 0, taken_nano from payment_dispute where not is_returned) parts
    where id = any (${[...ids]}::text[]) group by id`.execute(db)
  return new Map(rows.map(({ id, ...amounts }) => [id, amounts]))
}

/** Checkouts of the account that can still be paid. */
export async function countOpenCheckouts(tx: Tx, accountId: string): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select count(*)::integer as n from payment
    where account_id = ${accountId} and kind = 'checkout' and state = 'open'
      and expires_at > ${toDate(tx.clock.now())}`.execute(tx.db)
  return rows[0]?.n ?? 0
}

/** The payment that an object of the processor belongs to, by any of its ids. */
export async function findPaymentOf(
  db: Db,
  ids: {
    readonly sessionId?: string
    readonly intentId?: string | null
    readonly chargeId?: string
    readonly reference?: string | null
  },
): Promise<Payment | undefined> {
  const { rows } = await sql<Payment>`
    select * from payment
    where session_id = ${ids.sessionId ?? null} or intent_id = ${ids.intentId ?? null}
      or charge_id = ${ids.chargeId ?? null} or id = ${ids.reference ?? null}
    limit 1`.execute(db)
  return rows[0]
}

/** An event may be about it: the loop looks at once. Who looked before the event loses the lease, and postpones nothing. */
export async function wakePayment(tx: Tx, id: string): Promise<void> {
  await tx.db
    .updateTable('payment')
    .set({ ...noLease, due_at: toDate(tx.clock.now()) })
    .where('id', '=', id)
    .where('state', '<>', 'paid')
    .execute()
  tx.wake.add('payments')
}

/** The session that the processor says was created for it. It is written once; false: there is one already. */
export async function saveSession(
  db: Db,
  id: string,
  session: { readonly sessionId: string; readonly url: string | null; readonly customerId: string },
): Promise<boolean> {
  const row = await db
    .updateTable('payment')
    .set({ session_id: session.sessionId, session_url: session.url, customer_id: session.customerId })
    .where('id', '=', id)
    .where('session_id', 'is', null)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

export async function endPayment(
  tx: Tx,
  id: string,
  state: 'failed' | 'expired' | 'mismatch',
  failure: string | null,
): Promise<void> {
  await tx.db
    .updateTable('payment')
    .set({ state, failure: failure?.slice(0, 500) ?? null })
    .where('id', '=', id)
    .where('state', '<>', 'paid')
    .execute()
}

/** The processor warned about it. The first warning counts. */
export async function noteFraud(tx: Tx, id: string): Promise<void> {
  await tx.db
    .updateTable('payment')
    .set({ fraud_at: toDate(tx.clock.now()) })
    .where('id', '=', id)
    .where('fraud_at', 'is', null)
    .execute()
}

export const hasDuePayment: DueWork = ({ now }) => hasDue('payment', all, now)

export async function leasePayments(db: Db, options: LeaseOptions): Promise<Leased<Payment>> {
  return leaseDue(db, 'payment', all, options)
}

/** `dueAt` null: only an event makes it due again. */
export async function releasePayment(db: Db, id: string, token: string, dueAt: Instant | null): Promise<boolean> {
  return releaseLease(db, 'payment', { id }, token, { due_at: toDateOrNull(dueAt) })
}

export async function findCustomer(db: Db, accountId: string, isLive: boolean): Promise<string | undefined> {
  const row = await db
    .selectFrom('billing_profile')
    .select('customer_id')
    .where('account_id', '=', accountId)
    .where('is_live', '=', isLive)
    .executeTakeFirst()
  return row?.customer_id
}

export async function saveCustomer(tx: Tx, accountId: string, isLive: boolean, customerId: string): Promise<void> {
  await tx.db
    .insertInto('billing_profile')
    .values({ account_id: accountId, is_live: isLive, customer_id: customerId, created_at: toDate(tx.clock.now()) })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}
