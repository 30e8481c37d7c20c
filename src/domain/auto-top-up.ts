/** Automatic top-ups: when a card is charged, and what the processor's answer means. */
import { DAY_MS, HOUR_MS, type Instant } from '../base/instant.ts'
import { formatUsd, nanoUsdOf, type NanoUsd } from '../base/money.ts'
import { centsOf } from './payment.ts'
import { compare } from './difference.ts'
import type { Intent } from './processor.ts'

/** One attempt per hour, good or bad. */
export const ATTEMPT_EVERY_MS = HOUR_MS
/** The processor remembers keys of calls for a day; a charge that was not made by then is given up long before. */
export const CHARGE_WITHIN_MS = HOUR_MS
/** Banks answer a charge within seconds. One that is open after this time is looked at by an operator. */
const WATCHED_MS = 30 * DAY_MS
/** A page to pay on for the customer whose bank asks: as long as the processor keeps one open. */
export const CONFIRMATION_MS = 23 * HOUR_MS

export interface AutomaticPayment {
  readonly id: string
  readonly isLive: boolean
  readonly amount: NanoUsd
  readonly tax: NanoUsd
  readonly customerId: string | null
  readonly createdAt: Instant
}

export type ChargeVerdict =
  | { readonly kind: 'wait' }
  /** `isOver`: nothing can come of it any more. Otherwise it must be canceled first. */
  | { readonly kind: 'failed'; readonly failure: string; readonly isOver: boolean }
  | { readonly kind: 'mismatch'; readonly detail: string }
  | { readonly kind: 'paid'; readonly intent: Intent; readonly tax: NanoUsd }

/** Decides what a charge means for its payment. Only one that matches in everything is paid. */
export function judgeCharge(payment: AutomaticPayment, intent: Intent, now: Instant): ChargeVerdict {
  if (intent.status === 'processing') {
    return now - payment.createdAt > WATCHED_MS
      ? { kind: 'mismatch', detail: `the charge ${intent.id} is still in progress` }
      : { kind: 'wait' }
  }
  if (intent.status !== 'succeeded') {
    const isOver = intent.status === 'canceled'
    return { kind: 'failed', failure: intent.failure ?? intent.status, isOver }
  }
  const gross = nanoUsdOf(payment.amount + payment.tax)
  const differences = [
    compare('live', intent.isLive, payment.isLive),
    compare('currency', intent.currency, 'usd'),
    compare('customer', intent.customerId, payment.customerId),
    compare('reference', intent.reference, payment.id),
    compare('total', intent.receivedCents, centsOf(gross)),
  ].filter((text) => text !== undefined)
  return differences.length === 0
    ? { kind: 'paid', intent, tax: payment.tax }
    : { kind: 'mismatch', detail: `${formatUsd(gross)} USD was asked for; ${differences.join('; ')}` }
}

/** The bank wants the owner of the card to confirm. Asking again without them is no use. */
export function needsConfirmation(failure: string): boolean {
  return failure === 'authentication_required' || failure === 'requires_action'
}
