/** Refunds to the card: the money leaves the balance first, then the processor is asked; if it fails, it comes back. */
import { randomId } from '../../base/id.ts'
import type { Instant } from '../../base/instant.ts'
import { formatUsd, type NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { centsOf } from '../../domain/payment.ts'
import { nextLook, ProcessorError, type Processor, type RefundFacts } from '../../domain/processor.ts'
import { listOpenDisputes } from '../../store/payment/payment-dispute.ts'
import { findPayment } from '../../store/payment/payment.ts'
import { findRefundOf, saveRefundFacts } from '../../store/payment/payment-refund.ts'
import {
  lockPayment,
  readRest,
  returnRefund,
  takeDispute,
  takeRefund,
  type PaymentRefund,
} from '../../store/payment/payment-posting.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'
import { announceMoney } from './advance-payment.ts'

export interface RefundOrder {
  readonly paymentId: string
  readonly amount: NanoUsd
  readonly reason: string
}

/** An operator refunds at most what is left of the payment, and what the account has unspent. */
export async function refundPayment(
  app: App,
  tx: Tx,
  actor: Actor,
  order: RefundOrder,
): Promise<Result<PaymentRefund>> {
  if (app.processor === undefined) return fail('payments_off')
  const payment = await lockPayment(tx, order.paymentId)
  if (payment === undefined) return fail('payment_not_found')
  if (payment.state !== 'paid') return fail('payment_not_paid')
  if (centsOf(order.amount) === undefined) return failField(['amountUsd'], 'not_whole_cents')
  const refund = await takeRefund(tx, payment, {
    id: randomId('rfd'),
    amount: order.amount,
    actor: actor.keyId,
    reason: order.reason,
  })
  if (refund === 'too_much') {
    return failField(['amountUsd'], 'refund_too_large', { max: (await readRest(tx.db, payment)).amount })
  }
  if (refund === 'insufficient') return fail('insufficient_balance', { amount: order.amount, purpose: 'withdrawal' })
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'payment.refund',
    accountId: payment.account_id,
    subject: payment.id,
    reason: order.reason,
    detail: { amountUsd: formatUsd(order.amount), taxUsd: formatUsd(refund.tax_nano), refund: refund.id },
  })
  tx.wake.add('payments')
  return ok(refund)
}

/** Returns when to look again. null: it has ended. Throws what is worth trying again. */
export async function advanceRefund(app: App, processor: Processor, refund: PaymentRefund): Promise<Instant | null> {
  if (refund.state === 'succeeded' || refund.state === 'failed') return null
  const payment = await findPayment(app.database.db, refund.payment_id)
  if (payment === undefined || payment.is_live !== processor.isLive || payment.intent_id === null) return null
  const facts = await askFor(processor, refund, payment.intent_id)
  if (facts.status !== 'failed') {
    await saveRefundFacts(app.database.db, refund.id, facts, app.clock.now())
    return facts.status === 'succeeded' ? null : nextLook(app.clock.now(), refund.attempts + 1)
  }
  await transact(app.database, async (tx) => {
    const locked = await lockPayment(tx, payment.id)
    if (locked === undefined) return
    if (!(await returnRefund(tx, locked, refund.id, facts.failure ?? 'failed'))) return
    await announceMoney(tx, locked.account_id, formatUsd(refund.amount_nano), 'payment_refund')
    // A dispute did not take this part while it was on its way to the card.
    for (const dispute of await listOpenDisputes(tx.db, locked.id)) await takeDispute(tx, locked, dispute)
  })
  return null
}

async function askFor(processor: Processor, refund: PaymentRefund, intentId: string): Promise<RefundFacts> {
  if (refund.refund_id !== null) {
    const facts = await processor.readRefund(refund.refund_id)
    if (facts !== undefined) return facts
  }
  const cents = (centsOf(refund.amount_nano) ?? 0) + (centsOf(refund.tax_nano) ?? 0)
  try {
    return await processor.createRefund({ key: refund.id, intentId, cents })
  } catch (error) {
    if (error instanceof ProcessorError && error.isFinal) {
      return { id: refund.refund_id ?? '', status: 'failed', failure: error.message }
    }
    throw error
  }
}

/** A message about a refund. Those that were made at the processor itself are found by the daily comparison. */
export async function advanceRefundOf(app: App, processor: Processor, refundId: string): Promise<void> {
  const refund = await findRefundOf(app.database.db, refundId)
  if (refund === undefined) return
  const facts = await processor.readRefund(refundId)
  // It can fail after it had succeeded: the bank sends the money back.
  if (facts?.status === 'failed') await advanceRefund(app, processor, { ...refund, state: 'sent' })
  else await advanceRefund(app, processor, refund)
}
