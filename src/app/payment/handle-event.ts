/**
 * Handles messages of the processor: the object that one names is read again, and its row follows. Messages may come twice,
 * late and in any order, so one that is too early fails and is tried again.
 */
import { formatUsd } from '../../base/money.ts'
import type { Processor } from '../../domain/processor.ts'
import { findPaymentOf, noteFraud, wakePayment } from '../../store/payment/payment.ts'
import type { Payment } from '../../store/payment/payment-posting.ts'
import { raiseAlert, type ProcessorEvent } from '../../store/payment/processor-event.ts'
import { transact } from '../../store/platform/database.ts'
import type { App } from '../app.ts'
import { advanceTransfer } from '../payout/advance-payout.ts'
import { wakePayee } from '../payout/payout-account.ts'
import { advanceDispute } from './advance-dispute.ts'
import { forgetCard } from './saved-card.ts'
import { keepSession } from './confirmation.ts'
import { findPaymentOfCharge } from './find-payment.ts'
import { advanceRefundOf } from './refund.ts'

export async function handleEvent(app: App, processor: Processor, event: ProcessorEvent): Promise<void> {
  if (event.is_live !== processor.isLive || event.object_id === '') return
  const { type, object_id: id } = event
  if (type.startsWith('checkout.session.')) return wakeByCheckout(app, processor, id)
  if (type.startsWith('payment_intent.')) return wakeByIntent(app, processor, id)
  if (type.startsWith('charge.dispute.')) return advanceDispute(app, processor, id)
  if (type.startsWith('refund.') || type === 'charge.refund.updated') return advanceRefundOf(app, processor, id)
  if (type === 'payment_method.detached') return transact(app.database, (tx) => forgetCard(tx, id))
  if (type === 'account.updated') return wakePayee(app, id)
  if (type.startsWith('transfer.')) return advanceTransfer(app, processor, id)
  if (type === 'radar.early_fraud_warning.created') return noteWarning(app, processor, id)
}

async function wakeByCheckout(app: App, processor: Processor, sessionId: string): Promise<void> {
  const { db } = app.database
  const payment = await findPaymentOf(db, { sessionId })
  if (payment !== undefined) return wake(app, payment)
  const checkout = await processor.readCheckout(sessionId)
  if (checkout === undefined) return
  // The answer to its creation was lost.
  const ours = checkout.reference === null ? undefined : await findPaymentOf(db, { reference: checkout.reference })
  if (ours?.session_id === null && checkout.customerId !== null) {
    await keepSession(app, ours, { sessionId, url: null, customerId: checkout.customerId })
    return wake(app, ours)
  }
  if (checkout.paymentStatus === 'paid') await raiseForeign(app, checkout.intent?.id ?? sessionId)
}

async function wakeByIntent(app: App, processor: Processor, intentId: string): Promise<void> {
  const { db } = app.database
  const payment = await findPaymentOf(db, { intentId })
  if (payment !== undefined) return wake(app, payment)
  const intent = await processor.readIntent(intentId)
  if (intent === undefined) return
  const ours = intent.reference === null ? undefined : await findPaymentOf(db, { reference: intent.reference })
  if (ours !== undefined && ours.state !== 'paid') return wake(app, ours)
  if (intent.status === 'succeeded') await raiseForeign(app, intentId)
}

async function wake(app: App, payment: Payment): Promise<void> {
  if (payment.state !== 'paid') await transact(app.database, (tx) => wakePayment(tx, payment.id))
}

/** Somebody else uses the same account of the processor, or a row is lost. It credits nobody. */
async function raiseForeign(app: App, subject: string): Promise<void> {
  await transact(app.database, (tx) =>
    raiseAlert(tx, {
      kind: 'foreign',
      subject,
      accountId: null,
      detail: 'The processor has money that Berth did not ask for',
    }),
  )
}

async function noteWarning(app: App, processor: Processor, warningId: string): Promise<void> {
  const warning = await processor.readWarning(warningId)
  if (warning === undefined) return
  const payment = await findPaymentOfCharge(app, processor, warning)
  await transact(app.database, async (tx) => {
    if (payment !== undefined) {
      await noteFraud(tx, payment.id)
    }
    const amount =
      payment === undefined ? 'a payment that Berth does not know' : `${formatUsd(payment.amount_nano)} USD`
    await raiseAlert(tx, {
      kind: 'fraud_warning',
      subject: payment?.id ?? warning.chargeId,
      accountId: payment?.account_id ?? null,
      detail: `Probably fraud: ${amount}. Most such payments are disputed; a refund now avoids the fee`,
    })
  })
}
