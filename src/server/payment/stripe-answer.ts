/**
 * Reads answers of Stripe into the terms of the rest of Berth. Errors leave with their code only, since Stripe's texts repeat parts
 * of keys.
 */
import { Stripe } from 'stripe'
import { ProcessorError, type Card, type Intent } from '../../domain/processor.ts'
import type { TaxBasis } from '../../domain/tax.ts'

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

interface StripeTax {
  readonly name: string | null
  readonly percent: number | null
  readonly country: string | null
  readonly reason: string | null
}

/** Several rates, as of a state and its counties, are printed without a percentage. */
export function taxBasisOf(taxes: readonly StripeTax[]): TaxBasis {
  const [first] = taxes
  const country = first?.country ?? null
  const none = { by: 'processor', rule: 'none', country, name: null, percentMilli: 0, vatId: null } as const
  if (first === undefined) return { ...none, rule: 'rate', percentMilli: null }
  if (taxes.some(({ reason }) => reason === 'reverse_charge')) return { ...none, rule: 'reverse_charge' }
  const taxed = taxes.filter(({ percent }) => percent !== null && percent > 0)
  if (taxed.length === 0) return none
  const [one] = taxed
  const percentMilli = taxed.length === 1 ? Math.round((one?.percent ?? 0) * 1_000) : null
  return { ...none, rule: 'rate', name: taxed.length === 1 ? taxName(one?.name) : 'Tax', percentMilli }
}

function taxName(name: string | null | undefined): string {
  if (name === null || name === undefined || name === '') return 'Tax'
  return name === name.toLowerCase() ? (name.length <= 4 ? name.toUpperCase() : name.replaceAll('_', ' ')) : name
}
