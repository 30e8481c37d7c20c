/**
 * Brings a payment to what the processor says about it. Every step can be repeated, and a kill between two of them only
 * leaves the next for the loop: keys of calls are our ids, and the credit is one transaction.
 */
import type { Instant } from '../../base/instant.ts'
import { formatUsd } from '../../base/money.ts'
import { centsOf } from '../../domain/payment.ts'
import {
  CREATE_WITHIN_MS,
  judgeCheckout,
  nextLook,
  ProcessorError,
  type CheckoutVerdict,
  type Processor,
} from '../../domain/processor.ts'
import { resumeBatches } from '../../store/batch/batch.ts'
import { findAccount } from '../../store/account/account.ts'
import { readBalances } from '../../store/ledger/ledger.ts'
import { recordEvent } from '../../store/notice/event.ts'
import { forgetFailures } from '../../store/payment/auto-top-up.ts'
import { endPayment, findCustomer, saveCustomer } from '../../store/payment/payment.ts'
import { creditPayment, lockPayment, type Payment } from '../../store/payment/payment-posting.ts'
import { raiseAlert } from '../../store/payment/processor-event.ts'
import { saveCard } from '../../store/payment/saved-card.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import type { App } from '../app.ts'
import { announceConfirmation, keepSession } from './confirmation.ts'

type Final = Exclude<CheckoutVerdict, { kind: 'wait' }>

/** Returns when to look again. null: only an event can change anything. Throws what is worth trying again. */
export async function advancePayment(app: App, processor: Processor, payment: Payment): Promise<Instant | null> {
  const now = app.clock.now()
  if (payment.state === 'paid' || payment.is_live !== processor.isLive) return null
  const session = await sessionOf(app, processor, payment)
  if (session === undefined) return settle(app, payment.id, { kind: 'expired' })
  if (typeof session !== 'string') return settle(app, payment.id, session)
  const checkout = await processor.readCheckout(session)
  if (checkout === undefined) {
    return settle(app, payment.id, { kind: 'mismatch', detail: `the processor does not know its session ${session}` })
  }
  const customerId = payment.customer_id ?? (await findCustomer(app.database.db, payment.account_id, payment.is_live))
  const verdict = judgeCheckout(
    {
      id: payment.id,
      isLive: payment.is_live,
      amount: payment.amount_nano,
      customerId: customerId ?? null,
      createdAt: payment.created_at,
    },
    checkout,
    now,
  )
  return verdict.kind === 'wait' ? nextLook(now, payment.attempts + 1) : settle(app, payment.id, verdict)
}

/** undefined: it is too late to create one. */
async function sessionOf(app: App, processor: Processor, payment: Payment): Promise<string | Final | undefined> {
  if (payment.session_id !== null) return payment.session_id
  if (app.clock.now() - payment.created_at > CREATE_WITHIN_MS) return undefined
  try {
    const customerId = await customerOf(app, processor, payment.account_id)
    const session = await processor.createCheckout({
      id: payment.id,
      customerId,
      cents: centsOf(payment.amount_nano) ?? 0,
      savesCard: payment.saves_card,
      expiresAt: payment.expires_at,
    })
    await keepSession(app, payment, { ...session, customerId })
    return session.sessionId
  } catch (error) {
    if (error instanceof ProcessorError && error.isFinal) return { kind: 'failed', failure: error.message }
    throw error
  }
}

export async function customerOf(app: App, processor: Processor, accountId: string): Promise<string> {
  const { db } = app.database
  const { isLive } = processor
  const customer = await findCustomer(db, accountId, isLive)
  if (customer !== undefined) return customer
  const account = await findAccount(db, accountId)
  if (account === undefined) throw new Error(`there is no account ${accountId}`)
  const created = await processor.createCustomer({ key: `customer:${accountId}`, accountId, name: account.name })
  await transact(app.database, (tx) => saveCustomer(tx, accountId, isLive, created))
  // Two servers may have been here; the first one counts.
  return (await findCustomer(db, accountId, isLive)) ?? created
}

/** Brings a payment to its end, unless it is there. */
export async function settle(app: App, id: string, verdict: Final): Promise<null> {
  await transact(app.database, async (tx) => {
    const payment = await lockPayment(tx, id)
    if (payment === undefined || payment.state === 'paid') return
    if (verdict.kind === 'paid') return credit(tx, payment, verdict)
    // Its page was never there, so nobody has heard of it yet.
    if (payment.state === 'open' && payment.session_id === null) announceConfirmation(tx, payment, null)
    if (verdict.kind === 'failed') return endPayment(tx, id, 'failed', verdict.failure)
    if (verdict.kind === 'expired') return endPayment(tx, id, 'expired', null)
    const { detail } = verdict
    await endPayment(tx, id, 'mismatch', detail)
    await raiseAlert(tx, { kind: 'mismatch', subject: id, accountId: payment.account_id, detail })
  })
  return null
}

async function credit(tx: Tx, payment: Payment, { intent, tax }: Extract<Final, { kind: 'paid' }>): Promise<void> {
  const { account_id: accountId, is_live: isLive } = payment
  const customerId = intent.customerId ?? payment.customer_id
  if (customerId === null) throw new Error(`payment ${payment.id} has no customer`)
  const isNew = await creditPayment(tx, payment, { intentId: intent.id, chargeId: intent.chargeId, customerId, tax })
  if (!isNew) return
  if (payment.kind === 'automatic') await forgetFailures(tx, accountId)
  if (payment.saves_card && intent.card !== null) await saveCard(tx, accountId, isLive, intent.card)
  await announceMoney(tx, accountId, formatUsd(payment.amount_nano), 'purchase')
}

/** Tells the customer, and wakes the loops that may wait for money. */
export async function announceMoney(tx: Tx, accountId: string, amountUsd: string, kind: string): Promise<void> {
  await resumeBatches(tx, accountId)
  const { available } = await readBalances(tx.db, accountId)
  recordEvent(tx, {
    accountId,
    type: kind === 'dispute' ? 'balance.adjusted' : 'balance.credited',
    subject: { kind: 'balance', id: accountId },
    data: { amountUsd, kind, availableUsd: formatUsd(available) },
  })
  tx.wake.add('meter')
  tx.wake.add('volumes')
}
