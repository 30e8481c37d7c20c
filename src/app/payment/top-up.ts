/** A top-up by card: a row, and after its commit a page of the processor on which the customer pays. */
import { randomId } from '../../base/id.ts'
import { addMs } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { centsOf, MAX_TOP_UP, MIN_TOP_UP } from '../../domain/payment.ts'
import { CHECKOUT_MS, nextLook } from '../../domain/processor.ts'
import type { Tx } from '../../store/platform/database.ts'
import { countOpenCheckouts, findPayment, insertCheckout } from '../../store/payment/payment.ts'
import type { Payment } from '../../store/payment/payment-posting.ts'
import type { Actor, App } from '../app.ts'
import { advancePayment } from './advance-payment.ts'

export interface TopUp {
  readonly amount: NanoUsd
  readonly savesCard: boolean
}

export async function createTopUp(app: App, tx: Tx, actor: Actor, order: TopUp): Promise<Result<Payment>> {
  if (app.processor === undefined) return fail('payments_off')
  if (centsOf(order.amount) === undefined) return failField(['amountUsd'], 'not_whole_cents')
  if (order.amount < MIN_TOP_UP || order.amount > MAX_TOP_UP)
    return failField(['amountUsd'], 'top_up_range', { min: MIN_TOP_UP, max: MAX_TOP_UP })
  if ((await countOpenCheckouts(tx, actor.accountId)) >= limits.openCheckouts) return fail('too_many_open_payments')
  const id = randomId('pay')
  const now = tx.clock.now()
  await insertCheckout(tx, {
    id,
    accountId: actor.accountId,
    personId: actor.personId,
    isLive: app.processor.isLive,
    amount: order.amount,
    savesCard: order.savesCard,
    dueAt: nextLook(now, 1),
    expiresAt: addMs(now, CHECKOUT_MS),
  })
  const payment = await findPayment(tx.db, id)
  return payment === undefined ? fail('payment_not_found') : ok(payment)
}

/**
 * Creates the page now, since the customer waits for it. If that fails, the loop tries again; the answer then has no URL
 * yet. A repeated request gets the page of the first.
 */
export async function openTopUp(app: App, id: string): Promise<Payment | undefined> {
  const { processor, database } = app
  const payment = await findPayment(database.db, id)
  if (payment === undefined || processor === undefined || payment.session_id !== null) return payment
  try {
    await advancePayment(app, processor, payment)
  } catch (error) {
    app.warn?.(error, 'a page to pay on could not be created; it is tried again')
  }
  return findPayment(database.db, id)
}

export async function readTopUp(app: App, actor: Actor, id: string): Promise<Result<Payment>> {
  const payment = await findPayment(app.database.db, id, actor.accountId)
  return payment === undefined ? fail('payment_not_found') : ok(payment)
}
