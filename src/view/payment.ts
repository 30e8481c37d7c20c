/** States of payments by card, and reasons of automatic top-ups, for people. */
import { parseUsd, zeroUsd } from '../base/money.ts'
import type { Reply } from '../client/client.ts'
import { money } from './money.ts'
import type { Tone } from './tone.ts'

type Payment = Reply<'getTopUp'>
type AutoTopUp = Reply<'getAutoTopUp'>

const states = {
  open: ['Waiting for payment', 'info'],
  paid: ['Paid', 'good'],
  failed: ['Failed', 'bad'],
  expired: ['Expired', 'plain'],
  mismatch: ['In review', 'warn'],
} as const satisfies Record<Payment['state'], readonly [string, Tone]>

export function paymentLabel(payment: Payment): readonly [string, Tone] {
  const { kind, state, amountUsd, refundedUsd, disputedUsd } = payment
  if (isMoney(disputedUsd)) return ['Disputed', 'bad']
  if (isMoney(refundedUsd)) return [refundedUsd === amountUsd ? 'Refunded' : 'Partly refunded', 'warn']
  if (kind === 'automatic' && state === 'open') return ['Charging', 'info']
  return states[state]
}

/** Says more than the state. undefined: there is nothing more to say. */
export function paymentDetail({ failure, refundedUsd, disputedUsd }: Payment): string | undefined {
  if (isMoney(disputedUsd)) return `${money(disputedUsd)} taken back through the bank`
  if (isMoney(refundedUsd)) return `${money(refundedUsd)} refunded`
  return failure === null ? undefined : (failures[failure] ?? failure.replaceAll('_', ' '))
}

/** The codes of the processor that need more than their words. */
const failures: Readonly<Record<string, string>> = {
  monthly_cap: 'The monthly cap has no room for it',
  authentication_required: 'The bank wants you to confirm it',
  generic_decline: 'The bank declined it',
}

export const autoTopUpOffTexts = {
  failures: 'three charges in a row failed',
  card_removed: 'its card was removed',
  authentication: 'the bank wants you to confirm payments',
  dispute: 'a payment was disputed',
} as const satisfies Record<NonNullable<AutoTopUp['offReason']>, string>

function isMoney(usd: string): boolean {
  return (parseUsd(usd) ?? zeroUsd) > 0n
}
