/**
 * The payment processor as the rest of Berth sees it. Facts are read from it whenever something may have happened; nothing
 * that arrives in a message is believed.
 */
import { addMs, DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, type Instant } from '../base/instant.ts'
import { formatUsd, type NanoUsd } from '../base/money.ts'
import { centsOf, usdOfCents } from './payment.ts'
import { compare } from './difference.ts'
import type { PayeeCalls } from './transfer.ts'

export interface Processor extends PayeeCalls {
  /** false: test mode, in which no money moves. Whatever belongs to the other mode is ignored. */
  readonly isLive: boolean
  /** The same key gives the same customer. */
  createCustomer(input: { readonly key: string; readonly accountId: string; readonly name: string }): Promise<string>
  createCheckout(input: CheckoutOrder): Promise<{ readonly sessionId: string; readonly url: string | null }>
  /** undefined: there is no such session. */
  readCheckout(sessionId: string): Promise<Checkout | undefined>
  /** undefined: there is no such payment. */
  readIntent(intentId: string): Promise<Intent | undefined>
  /** The tax of a charge at the customer's address. The same key gives the same calculation. */
  calculateTax(input: {
    readonly key: string
    readonly customerId: string
    readonly cents: number
  }): Promise<TaxCalculation>
  /** The charge that was made for a payment, whatever became of the answer. undefined: none was. */
  findCharge(input: {
    readonly id: string
    readonly customerId: string
    readonly since: Instant
  }): Promise<Intent | undefined>
  /** Charges a saved card without its owner. A card that is declined is an answer too. */
  chargeCard(input: CardCharge): Promise<Intent>
  /** Makes sure that nothing comes of a charge any more. Returns what it is then, which can be paid. */
  cancelCharge(intentId: string): Promise<Intent | undefined>
  /** Nobody can charge the card afterwards. */
  detachCard(cardId: string): Promise<void>
  /** A page on which the customer manages cards and details. */
  createPortal(customerId: string): Promise<string>
  createRefund(input: { readonly key: string; readonly intentId: string; readonly cents: number }): Promise<RefundFacts>
  readRefund(refundId: string): Promise<RefundFacts | undefined>
  readDispute(disputeId: string): Promise<DisputeFacts | undefined>
  /** undefined: there is no such warning. */
  readWarning(warningId: string): Promise<{ readonly intentId: string | null; readonly chargeId: string } | undefined>
  /** Messages since an instant, of the types that concern us, in pages: for what was not delivered. */
  listEvents(since: Instant): AsyncIterable<ProcessorMessage>
  /** Its own ledger between two instants, the first included, newest first. */
  listTransactions(from: Instant, until: Instant): AsyncIterable<ProcessorTransaction>
  /** The message, if one of our secrets has signed these bytes in the last minutes. */
  openMessage(body: Buffer, signature: string): ProcessorMessage | undefined
  close(): Promise<void>
}

export interface CheckoutOrder {
  /** The payment's id: the idempotency key, and the reference in everything that is created. */
  readonly id: string
  readonly customerId: string
  readonly cents: number
  readonly savesCard: boolean
  readonly expiresAt: Instant
}

export interface TaxCalculation {
  readonly calculationId: string
  readonly taxCents: number
}

export interface CardCharge {
  /** The payment's id: the idempotency key, and the reference in what is created. */
  readonly id: string
  readonly customerId: string
  readonly cardId: string
  /** Tax included. */
  readonly cents: number
  readonly calculationId: string
}

export interface Checkout {
  readonly sessionId: string
  readonly isLive: boolean
  readonly mode: string
  /** `open`, `complete` or `expired`. */
  readonly status: string | null
  readonly paymentStatus: string
  readonly currency: string | null
  readonly subtotalCents: number | null
  readonly taxCents: number
  readonly totalCents: number | null
  readonly customerId: string | null
  readonly reference: string | null
  readonly intent: Intent | null
}

export interface Intent {
  readonly id: string
  readonly isLive: boolean
  readonly status: string
  /** The id of our payment, as it was created with. */
  readonly reference: string | null
  readonly customerId: string | null
  readonly chargeId: string | null
  readonly currency: string
  readonly receivedCents: number
  /** The code of the last failure. null: none. */
  readonly failure: string | null
  readonly card: Card | null
}

export interface Card {
  readonly id: string
  readonly brand: string
  readonly last4: string
  readonly fingerprint: string | null
  readonly expMonth: number
  readonly expYear: number
}

export interface RefundFacts {
  readonly id: string
  readonly status: 'pending' | 'succeeded' | 'failed'
  readonly failure: string | null
}

export interface DisputeFacts {
  readonly id: string
  readonly isLive: boolean
  readonly intentId: string | null
  readonly chargeId: string
  readonly status: string
  readonly reason: string
  readonly cents: number
  readonly currency: string
  /** Whether the processor has taken the money, and not given it back. */
  readonly isWithdrawn: boolean
}

export interface ProcessorMessage {
  readonly id: string
  readonly isLive: boolean
  readonly type: string
  /** '': none. */
  readonly objectId: string
  readonly at: Instant
}

/** A line of the processor's own ledger. */
export interface ProcessorTransaction {
  readonly id: string
  /** `fee`: only a fee. `own`: it moves the operator's own money, such as to its bank. */
  readonly kind: 'charge' | 'refund' | 'dispute' | 'transfer' | 'fee' | 'own' | 'other'
  /** The charge, refund, dispute or transfer. null: it has none. */
  readonly sourceId: string | null
  /** Below zero if money left. */
  readonly cents: number
  readonly feeCents: number
  readonly currency: string
  readonly at: Instant
}

/** A call that failed. Without the processor's text, which can repeat a part of the key. */
export class ProcessorError extends Error {
  /** Trying again will not help: the processor has understood and refused. */
  readonly isFinal: boolean

  constructor(code: string, isFinal: boolean) {
    super(`The payment processor answered: ${code}`)
    this.isFinal = isFinal
  }
}

/** Checkouts can be paid for at least 30 minutes; the rest is for creating one whose first try failed. */
export const CHECKOUT_MS = 40 * MINUTE_MS
export const CREATE_WITHIN_MS = 9 * MINUTE_MS
/** After this time nothing more is expected of a payment: transfers that take days have failed by then. */
const WATCHED_MS = 30 * DAY_MS

const waits = [10 * SECOND_MS, MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS] as const

/** When to ask again, after so many times. Events come in between. */
export function nextLook(now: Instant, attempts: number): Instant {
  return addMs(now, waits[Math.max(0, attempts - 1)] ?? HOUR_MS)
}

export interface AwaitedPayment {
  readonly id: string
  readonly isLive: boolean
  readonly amount: NanoUsd
  readonly customerId: string | null
  readonly createdAt: Instant
}

export type CheckoutVerdict =
  | { readonly kind: 'wait' }
  | { readonly kind: 'expired' }
  | { readonly kind: 'failed'; readonly failure: string }
  | { readonly kind: 'mismatch'; readonly detail: string }
  | { readonly kind: 'paid'; readonly intent: Intent; readonly tax: NanoUsd }

/** Decides what a checkout means for its payment. Only one that matches in everything is paid. */
export function judgeCheckout(payment: AwaitedPayment, checkout: Checkout, now: Instant): CheckoutVerdict {
  if (checkout.paymentStatus !== 'paid') {
    if (checkout.status === 'expired') return { kind: 'expired' }
    if (checkout.status === 'complete' && checkout.intent?.status === 'requires_payment_method')
      return { kind: 'failed', failure: checkout.intent.failure ?? 'declined' }
    return now - payment.createdAt > WATCHED_MS ? { kind: 'expired' } : { kind: 'wait' }
  }
  const { intent } = checkout
  const differences = [
    compare('mode', checkout.mode, 'payment'),
    compare('live', checkout.isLive, payment.isLive),
    compare('currency', checkout.currency, 'usd'),
    compare('customer', checkout.customerId, payment.customerId),
    compare('reference', checkout.reference, payment.id),
    compare('amount', checkout.subtotalCents, centsOf(payment.amount)),
    compare('total', checkout.totalCents, (checkout.subtotalCents ?? 0) + checkout.taxCents),
  ].filter((text) => text !== undefined)
  if (intent === null || differences.length > 0) {
    const detail = intent === null ? 'no payment intent' : differences.join('; ')
    return { kind: 'mismatch', detail: `${formatUsd(payment.amount)} USD was asked for; ${detail}` }
  }
  return { kind: 'paid', intent, tax: usdOfCents(checkout.taxCents) }
}
