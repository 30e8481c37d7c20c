/** States of payouts and what they wait for, for people. */
import { parseUsd, zeroUsd } from '../base/money.ts'
import type { Reply } from '../client/client.ts'
import type { Tone } from './tone.ts'

type Run = Reply<'getPayoutRun'>
type Payout = Reply<'listPayouts'>['payouts'][number]
type Block = NonNullable<Reply<'listPayouts'>['blockedBy']>

const payoutStateLabels = {
  draft: ['Draft', 'plain'],
  approved: ['Approved', 'info'],
  sent: ['Sent', 'info'],
  paid: ['Paid', 'good'],
  failed: ['Failed', 'bad'],
  canceled: ['Canceled', 'plain'],
} as const satisfies Record<Payout['state'], readonly [string, Tone]>

export function payoutLabel({ state, returnedUsd }: Pick<Payout, 'state' | 'returnedUsd'>): readonly [string, Tone] {
  return state === 'paid' && (parseUsd(returnedUsd) ?? zeroUsd) > 0n
    ? ['Partly returned', 'warn']
    : payoutStateLabels[state]
}

export const payoutRunLabels = {
  draft: ['To approve', 'warn'],
  approved: ['Approved', 'info'],
  sent: ['Sent', 'info'],
  paid: ['Done', 'good'],
  canceled: ['Canceled', 'plain'],
} as const satisfies Record<Run['state'], readonly [string, Tone]>

export const payoutBlockTexts = {
  no_details: 'not set up',
  not_confirmed: 'Stripe needs more details',
  details_changed: 'new details wait for 72 hours',
  below_minimum: 'below the minimum',
  suspended: 'the account is suspended',
  payments_off: 'Stripe is not set up on this server',
} as const satisfies Record<Block, string>

/** Why a payout waits, failed or was canceled. undefined: nothing is wrong. */
export function payoutDetail({ failure }: Pick<Payout, 'failure'>): string | undefined {
  if (failure === null) return undefined
  return failures[failure] ?? (payoutBlockTexts as Readonly<Record<string, string>>)[failure] ?? failure
}

const failures: Readonly<Record<string, string>> = {
  balance_insufficient: 'Stripe has too little money; it is tried again every hour',
  earnings_changed: 'its earnings have changed since the draft',
  reversed: 'reversed at Stripe',
}
