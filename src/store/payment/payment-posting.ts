/**
 * Books payments, refunds and disputes, each with its row in one transaction. Keys come from the
 * processor's ids or ours, so nothing moves twice. The row of the payment is locked before the balances.
 */
import { sql, type Selectable } from 'kysely'
import { toDate } from '../../base/instant.ts'
import { minUsd, nanoUsdOf, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { partOfDispute, taxOfRefund, type Part } from '../../domain/payment.ts'
import { lockAvailable, post, type LedgerKind, type LedgerRef, type Posting } from '../ledger/ledger.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type Payment = Selectable<Tables['payment']>
export type PaymentRefund = Selectable<Tables['payment_refund']>
export type PaymentDispute = Selectable<Tables['payment_dispute']>

export async function lockPayment(tx: Tx, id: string): Promise<Payment | undefined> {
  return tx.db.selectFrom('payment').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
}

/** Facts of the processor about a payment that succeeded. */
export interface PaidFacts {
  readonly intentId: string
  readonly chargeId: string | null
  readonly customerId: string
  readonly tax: NanoUsd
}

/** Credits a payment once. False: it was credited before. The caller has locked it. */
export async function creditPayment(tx: Tx, payment: Payment, facts: PaidFacts): Promise<boolean> {
  if (payment.state === 'paid') return false
  const accountId = payment.account_id
  await tx.db
    .updateTable('payment')
    .set({
      state: 'paid',
      intent_id: facts.intentId,
      charge_id: facts.chargeId,
      customer_id: facts.customerId,
      tax_nano: facts.tax,
      paid_at: toDate(tx.clock.now()),
      failure: null,
    })
    .where('id', '=', payment.id)
    .execute()
  const answer = await post(tx, {
    key: `stripe:${facts.intentId}`,
    kind: 'purchase',
    accountId,
    memo: payment.kind === 'automatic' ? 'Automatic top-up' : 'Top-up by card',
    actor: null,
    reason: null,
    transfers: legs(
      { from: house('processor'), to: ofAccount(accountId), amount: payment.amount_nano },
      { from: house('processor'), to: house('tax'), amount: facts.tax },
    ),
  })
  return answer === 'posted'
}

/** Sums up what refunds and disputes have taken of a payment. */
async function readTaken(db: Db, paymentId: string): Promise<Part> {
  const { rows } = await sql<Part>`
    select coalesce(sum(amount), 0)::bigint as amount, coalesce(sum(tax), 0)::bigint as tax from (
      select amount_nano as amount, tax_nano as tax from payment_refund
      where payment_id = ${paymentId} and state <> 'failed'
      union all
      select taken_nano, tax_nano from payment_dispute where payment_id = ${paymentId} and not is_returned) parts`.execute(
    db,
  )
  return rows[0] ?? { amount: zeroUsd, tax: zeroUsd }
}

/** The part of a payment that nobody has taken back. */
export async function readRest(db: Db, payment: Payment): Promise<Part> {
  const earlier = await readTaken(db, payment.id)
  return {
    amount: nanoUsdOf(payment.amount_nano - earlier.amount),
    tax: nanoUsdOf((payment.tax_nano ?? 0n) - earlier.tax),
  }
}

export interface NewRefund {
  readonly id: string
  readonly amount: NanoUsd
  readonly actor: string
  readonly reason: string
}

/**
 * Takes the money of a refund from the balance, before the processor is asked. `too_much`: more than the payment has left;
 * `insufficient`: more than the account has unspent. Then nothing is written. The caller has locked the payment.
 */
export async function takeRefund(
  tx: Tx,
  payment: Payment,
  refund: NewRefund,
): Promise<PaymentRefund | 'too_much' | 'insufficient'> {
  const now = toDate(tx.clock.now())
  const earlier = await readTaken(tx.db, payment.id)
  if (earlier.amount + refund.amount > payment.amount_nano) return 'too_much'
  const paid = { amount: payment.amount_nano, tax: payment.tax_nano ?? zeroUsd }
  const tax = taxOfRefund(paid, earlier, refund.amount)
  const answer = await post(tx, {
    key: `stripe-refund:${refund.id}`,
    kind: 'payment_refund',
    accountId: payment.account_id,
    memo: 'Payment refunded',
    actor: refund.actor,
    reason: refund.reason,
    transfers: legs(
      { from: ofAccount(payment.account_id), to: house('processor'), amount: refund.amount },
      { from: house('tax'), to: house('processor'), amount: tax },
    ),
  })
  if (answer === 'insufficient') return 'insufficient'
  return tx.db
    .insertInto('payment_refund')
    .values({
      id: refund.id,
      payment_id: payment.id,
      state: 'open',
      amount_nano: refund.amount,
      tax_nano: tax,
      actor: refund.actor,
      reason: refund.reason,
      due_at: now,
      created_at: now,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Gives back the money of a refund that failed at the processor. False: it came back before. */
export async function returnRefund(tx: Tx, payment: Payment, refundId: string, failure: string): Promise<boolean> {
  const refund = await tx.db
    .updateTable('payment_refund')
    .set({ state: 'failed', failure, due_at: null, ended_at: toDate(tx.clock.now()) })
    .where('id', '=', refundId)
    .where('state', '<>', 'failed')
    .returningAll()
    .executeTakeFirst()
  if (refund === undefined) return false
  await post(tx, {
    key: `stripe-refund:${refundId}:return`,
    kind: 'payment_refund',
    accountId: payment.account_id,
    memo: 'Refund failed',
    actor: null,
    reason: null,
    transfers: legs(
      { from: house('processor'), to: ofAccount(payment.account_id), amount: refund.amount_nano },
      { from: house('processor'), to: house('tax'), amount: refund.tax_nano },
    ),
  })
  return true
}

/**
 * Takes what the processor withdrew for a dispute: the balance as far as it goes, then a debt. A refund that is on its way
 * is not taken again; if it fails, the next call takes that part. Returns what this call took. The payment is locked.
 */
export async function takeDispute(tx: Tx, payment: Payment, dispute: PaymentDispute): Promise<Part> {
  const accountId = payment.account_id
  const due = nanoUsdOf(dispute.amount_nano - dispute.taken_nano - dispute.tax_nano)
  const part = partOfDispute(await readRest(tx.db, payment), due)
  if (dispute.is_returned || part.amount + part.tax === 0n) return { amount: zeroUsd, tax: zeroUsd }
  const balance = (await lockAvailable(tx, [accountId])).get(accountId) ?? zeroUsd
  const fromBalance = minUsd(balance, part.amount)
  const debt = nanoUsdOf(part.amount - fromBalance)
  const takes = dispute.takes + 1
  await post(tx, {
    key: `stripe-dispute:${dispute.id}:${takes}`,
    kind: 'dispute',
    accountId,
    memo: 'Payment disputed by the owner of the card',
    actor: null,
    reason: null,
    transfers: legs(
      { from: ofAccount(accountId), to: house('processor'), amount: fromBalance },
      { from: house('receivables'), to: house('processor'), amount: debt },
      { from: house('tax'), to: house('processor'), amount: part.tax },
    ),
  })
  await tx.db
    .updateTable('payment_dispute')
    .set({
      taken_nano: nanoUsdOf(dispute.taken_nano + part.amount),
      tax_nano: nanoUsdOf(dispute.tax_nano + part.tax),
      takes,
    })
    .where('id', '=', dispute.id)
    .execute()
  if (debt > 0n) {
    await sql`insert into account_debt (account_id, owed_nano) values (${accountId}, ${debt.toString()}::bigint)
      on conflict (account_id) do update set owed_nano = account_debt.owed_nano + excluded.owed_nano`.execute(tx.db)
  }
  return part
}

/** Gives back exactly what a dispute took; a debt that is left is repaid from it. False: nothing was taken, or it is back. */
export async function returnDispute(tx: Tx, payment: Payment, dispute: PaymentDispute): Promise<boolean> {
  if (dispute.is_returned || dispute.takes === 0) return false
  await tx.db.updateTable('payment_dispute').set({ is_returned: true }).where('id', '=', dispute.id).execute()
  await post(tx, {
    key: `stripe-dispute:${dispute.id}:return`,
    kind: 'dispute_return',
    accountId: payment.account_id,
    memo: 'Dispute won',
    actor: null,
    reason: null,
    transfers: legs(
      { from: house('processor'), to: ofAccount(payment.account_id), amount: dispute.taken_nano },
      { from: house('processor'), to: house('tax'), amount: dispute.tax_nano },
    ),
  })
  return true
}

type Transfer = Posting['transfers'][number]

/** Those that move something: a transfer of nothing is refused. */
function legs(...transfers: readonly Transfer[]): Transfer[] {
  return transfers.filter(({ amount }) => amount > 0n)
}

function house(kind: LedgerKind): LedgerRef {
  return { accountId: null, kind }
}

function ofAccount(accountId: string): LedgerRef {
  return { accountId, kind: 'available' }
}
