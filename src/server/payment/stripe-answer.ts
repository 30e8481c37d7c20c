/**
 * Reads answers of Stripe into the terms of the rest of Berth. Errors leave with their code only, since Stripe's texts repeat parts
 * of keys.
 */
import { Stripe } from 'stripe'
import { ProcessorError, type Card, type Intent } from '../../domain/processor.ts'

/** The field of our payment in everything that is created for it. */
export const PAYMENT_KEY = 'berth_payment'
/** The field of our account in every connected account. */
export const ACCOUNT_KEY = 'berth_account'
/** Electronically supplied services: what computing power is taxed as. */
export const TAX_CODE = 'txcd_10000000'

export function intentOf(intent: Stripe.PaymentIntent): Intent {
  return {
    id: intent.id,
    isLive: intent.livemode,
    status: intent.status,
    reference: intent.metadata[PAYMENT_KEY] ?? null,
    customerId: idOf(intent.customer),
    chargeId: idOf(intent.latest_charge),
    currency: intent.currency,
    receivedCents: intent.amount_received,
    failure: intent.last_payment_error?.decline_code ?? intent.last_payment_error?.code ?? null,
    card: typeof intent.payment_method === 'string' ? null : cardOf(intent.payment_method),
  }
}

function cardOf(method: Stripe.PaymentMethod | null): Card | null {
  if (method?.card === undefined) return null
  const { brand, last4, fingerprint, exp_month: expMonth, exp_year: expYear } = method.card
  return { id: method.id, brand, last4, fingerprint: fingerprint ?? null, expMonth, expYear }
}

export function idOf(reference: string | { readonly id: string } | null | undefined): string | null {
  return typeof reference === 'string' ? reference : (reference?.id ?? null)
}

export async function answer<T>(call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (error) {
    throw processorError(error)
  }
}

export async function answerOrNone<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call
  } catch (error) {
    if (error instanceof Stripe.errors.StripeError && error.code === 'resource_missing') return undefined
    throw processorError(error)
  }
}

export function processorError(error: unknown): unknown {
  if (!(error instanceof Stripe.errors.StripeError)) return error
  const code = error.decline_code ?? error.code ?? error.type
  const isRefusal = error.type === 'StripeInvalidRequestError' || error.type === 'StripeCardError'
  // 409: the same call is still in progress.
  return new ProcessorError(code, isRefusal && error.statusCode !== 409)
}
