/**
 * Carries out an automatic top-up: calculates the tax, charges the card, and judges the answer. A kill between any two
 * steps leaves the row for the loop, which first looks for the charge that an earlier pass may have made. A charge that the
 * bank refuses is canceled before it counts as failed, so nothing can come of it later.
 */
import type { Instant } from '../../base/instant.ts'
import { formatUsd, minUsd, zeroUsd } from '../../base/money.ts'
import { CHARGE_WITHIN_MS, judgeCharge, needsConfirmation, type ChargeVerdict } from '../../domain/auto-top-up.ts'
import { centsOf, usdOfCents } from '../../domain/payment.ts'
import { nextLook, ProcessorError, type Intent, type Processor, type TaxCalculation } from '../../domain/processor.ts'
import { recordEvent } from '../../store/notice/event.ts'
import {
  countFailure,
  lockAutoTopUp,
  saveCalculation,
  saveCharge,
  sumOfMonth,
  switchOff,
} from '../../store/payment/auto-top-up.ts'
import { endPayment } from '../../store/payment/payment.ts'
import { lockPayment, type Payment } from '../../store/payment/payment-posting.ts'
import { findCard } from '../../store/payment/saved-card.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import type { App } from '../app.ts'
import { settle } from './advance-payment.ts'
import { announceOff, pause } from './auto-top-up.ts'
import { insertConfirmation } from './confirmation.ts'

/** Returns when to look again. null: it has ended. Throws what is worth trying again. */
export async function advanceAutomatic(app: App, processor: Processor, payment: Payment): Promise<Instant | null> {
  if (payment.state === 'paid' || payment.is_live !== processor.isLive) return null
  const intent = await findIntent(processor, payment)
  if (intent !== undefined) return conclude(app, processor, payment, intent)
  if (payment.state !== 'open') return null
  if (app.clock.now() - payment.created_at > CHARGE_WITHIN_MS) return settle(app, payment.id, { kind: 'expired' })
  try {
    const ready = await prepare(app, processor, payment)
    return ready === undefined ? null : conclude(app, processor, ready, await charge(processor, ready))
  } catch (error) {
    if (!(error instanceof ProcessorError && error.isFinal)) throw error
    await failAttempt(app, payment, error.message)
    return null
  }
}

async function findIntent(processor: Processor, payment: Payment): Promise<Intent | undefined> {
  const { id, intent_id: intentId, customer_id: customerId, created_at: since } = payment
  if (intentId !== null) return processor.readIntent(intentId)
  return customerId === null ? undefined : processor.findCharge({ id, customerId, since })
}

/** The payment with its tax, if it may still be charged. undefined: it may not, and has ended. */
async function prepare(app: App, processor: Processor, payment: Payment): Promise<Payment | undefined> {
  const cents = centsOf(payment.amount_nano) ?? 0
  const calculation: TaxCalculation =
    payment.calculation_id === null
      ? await processor.calculateTax({ key: `${payment.id}:tax`, customerId: payment.customer_id ?? '', cents })
      : { calculationId: payment.calculation_id, taxCents: centsOf(payment.tax_nano ?? zeroUsd) ?? 0 }
  return transact(app.database, async (tx) => {
    const locked = await lockPayment(tx, payment.id)
    const wish = await lockAutoTopUp(tx, payment.account_id)
    const card = await findCard(tx.db, payment.card_id ?? '')
    if (locked?.state !== 'open' || wish === undefined) return undefined
    if (!wish.is_on || wish.card_id !== locked.card_id || card === undefined || card.removed_at !== null) {
      await endPayment(tx, locked.id, 'expired', null)
      return undefined
    }
    const tax = usdOfCents(calculation.taxCents)
    const others = await sumOfMonth(tx.db, locked.account_id, locked.created_at, locked.id)
    // A cap that was lowered meanwhile counts; one that was raised counts for the next charge.
    if (others + locked.amount_nano + tax > minUsd(wish.cap_nano, locked.cap_nano ?? zeroUsd)) {
      await endPayment(tx, locked.id, 'expired', 'monthly_cap')
      await pause(tx, wish, locked.created_at)
      return undefined
    }
    await saveCalculation(tx, locked.id, { calculationId: calculation.calculationId, tax })
    return lockPayment(tx, locked.id)
  })
}

async function charge(processor: Processor, payment: Payment): Promise<Intent> {
  const { amount_nano: amount, tax_nano: tax, calculation_id: calculationId } = payment
  return processor.chargeCard({
    id: payment.id,
    customerId: payment.customer_id ?? '',
    cardId: payment.card_id ?? '',
    cents: (centsOf(amount) ?? 0) + (centsOf(tax ?? zeroUsd) ?? 0),
    calculationId: calculationId ?? '',
  })
}

async function conclude(app: App, processor: Processor, payment: Payment, intent: Intent): Promise<Instant | null> {
  const verdict = judge(app, payment, intent)
  if (verdict.kind === 'wait') return nextLook(app.clock.now(), payment.attempts + 1)
  if (verdict.kind !== 'failed') return settle(app, payment.id, verdict)
  const failure = payment.failure ?? verdict.failure
  // A canceled charge no longer says why.
  await saveCharge(app.database.db, payment.id, intent.id, failure)
  const last = verdict.isOver ? verdict : judge(app, payment, (await processor.cancelCharge(intent.id)) ?? intent)
  if (last.kind === 'paid' || last.kind === 'mismatch') return settle(app, payment.id, last)
  if (last.kind === 'wait' || !last.isOver) return nextLook(app.clock.now(), payment.attempts + 1)
  await failAttempt(app, payment, failure)
  return null
}

function judge(app: App, payment: Payment, intent: Intent): ChargeVerdict {
  return judgeCharge(
    {
      id: payment.id,
      isLive: payment.is_live,
      amount: payment.amount_nano,
      tax: payment.tax_nano ?? zeroUsd,
      customerId: payment.customer_id,
      createdAt: payment.created_at,
    },
    intent,
    app.clock.now(),
  )
}

/** Counts once, and tells the customer. */
async function failAttempt(app: App, { id }: Payment, failure: string): Promise<void> {
  await transact(app.database, async (tx) => {
    const payment = await lockPayment(tx, id)
    if (payment?.state !== 'open') return
    await endPayment(tx, id, 'failed', failure)
    const { account_id: accountId } = payment
    if (needsConfirmation(failure)) {
      await switchOff(tx, accountId, 'authentication')
      return insertConfirmation(tx, payment)
    }
    const wish = await countFailure(tx, accountId)
    recordFailure(tx, payment, failure, wish?.failures ?? 0)
    if (wish !== undefined && !wish.is_on) announceOff(tx, accountId, { reason: 'failures' })
  })
}

function recordFailure(tx: Tx, payment: Payment, failure: string, failures: number): void {
  recordEvent(tx, {
    accountId: payment.account_id,
    type: 'balance.auto_top_up_failed',
    subject: { kind: 'balance', id: payment.account_id },
    data: { paymentId: payment.id, amountUsd: formatUsd(payment.amount_nano), failure, failures },
  })
}
