/** The payment that an object of the processor is about. */
import type { Processor } from '../../domain/processor.ts'
import { findPaymentOf } from '../../store/payment/payment.ts'
import type { Payment } from '../../store/payment/payment-posting.ts'
import type { App } from '../app.ts'

/** Its intent is known here once it is credited; before that, the intent itself names it. */
export async function findPaymentOfCharge(
  { database: { db } }: App,
  processor: Processor,
  { intentId, chargeId }: { readonly intentId: string | null; readonly chargeId: string },
): Promise<Payment | undefined> {
  const payment = await findPaymentOf(db, { intentId, chargeId })
  if (payment !== undefined || intentId === null) return payment
  const intent = await processor.readIntent(intentId)
  const { reference = null } = intent ?? {}
  const named = reference === null ? undefined : await findPaymentOf(db, { reference })
  // Another intent was credited for it.
  return named?.intent_id === null ? named : undefined
}
