/** Which earnings of a supplier are paid out, when, and why some wait. */
import { addMs, DAY_MS, HOUR_MS, startOfDay, type Instant } from '../base/instant.ts'
import { nanoUsdOf, usd, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { DebtorAccount } from './bank-file.ts'

/** Whoever gets into an account must not be paid before its owners have had time to notice. */
export const CHANGED_DETAILS_WAIT_MS = 72 * HOUR_MS

const CENT = usd('0.01')
const WEEK_DAYS = 7

/** From Sunday on, as in dates. */
export const weekdays = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'] as const
export type Weekday = (typeof weekdays)[number]

export interface PayoutSettings {
  /** Earnings are paid this long after they were charged. */
  readonly holdbackMs: number
  readonly minimum: NanoUsd
  /** The day on which a run is drafted, at midnight UTC. null: operators start each. */
  readonly weekday: Weekday | null
  /** The account that bank files are paid from. null: files have CSV only. */
  readonly debtor: DebtorAccount | null
}

export const defaultPayoutSettings: PayoutSettings = {
  holdbackMs: 14 * DAY_MS,
  minimum: usd('50'),
  weekday: 'monday',
  debtor: null,
}

export interface EarningsToPay {
  readonly balance: NanoUsd
  /** Charged since the start of the holdback. */
  readonly maturing: NanoUsd
}

/** Returns the earnings past the holdback, rounded down to cents. Charges that were taken back meanwhile count against it. */
export function payableOf({ balance, maturing }: EarningsToPay): NanoUsd {
  const mature = balance - maturing
  return mature <= 0n ? zeroUsd : nanoUsdOf(mature - (mature % CENT))
}

export type PayoutBlock =
  | 'no_details'
  | 'not_confirmed'
  | 'details_changed'
  | 'below_minimum'
  | 'suspended'
  | 'payments_off'

export interface PayoutCandidate {
  readonly payable: NanoUsd
  readonly isSuspended: boolean
  /** null: the supplier has given none. */
  readonly details: PayoutDetails | null
}

export interface PayoutDetails {
  readonly kind: 'stripe' | 'bank'
  readonly isLive: boolean | null
  readonly isConfirmed: boolean
  readonly changedAt: Instant
}

/** Why a supplier is not paid now. undefined: it is. `mode`: of the payment processor; undefined: there is none. */
export function blockOf(
  candidate: PayoutCandidate,
  rules: { readonly now: Instant; readonly minimum: NanoUsd; readonly mode: boolean | undefined },
): PayoutBlock | undefined {
  const { payable, isSuspended, details } = candidate
  if (isSuspended) return 'suspended'
  if (payable === 0n || payable < rules.minimum) return 'below_minimum'
  if (details === null) return 'no_details'
  if (details.kind === 'stripe' && details.isLive !== rules.mode) return 'payments_off'
  if (!details.isConfirmed) return 'not_confirmed'
  return rules.now < usableFrom(details) ? 'details_changed' : undefined
}

/** When a payout to these details is possible at the earliest. */
export function usableFrom({ changedAt }: Pick<PayoutDetails, 'changedAt'>): Instant {
  return addMs(changedAt, CHANGED_DETAILS_WAIT_MS)
}

/** The last scheduled run at or before an instant. undefined: there is no schedule. */
export function lastScheduledRun(weekday: Weekday | null, now: Instant): Instant | undefined {
  if (weekday === null) return undefined
  const today = startOfDay(now)
  const days = (new Date(today).getUTCDay() - weekdays.indexOf(weekday) + WEEK_DAYS) % WEEK_DAYS
  return addMs(today, -days * DAY_MS)
}

export function nextScheduledRun(weekday: Weekday | null, now: Instant): Instant | null {
  const last = lastScheduledRun(weekday, now)
  return last === undefined ? null : addMs(last, WEEK_DAYS * DAY_MS)
}

export type PayoutState = 'draft' | 'approved' | 'sent' | 'paid' | 'failed' | 'canceled'
export type PayoutRunState = 'draft' | 'approved' | 'sent' | 'paid' | 'canceled'

/** Decides the state of an approved run by those of its payouts. With nothing left to pay it is done. */
export function runStateOf(states: readonly PayoutState[]): PayoutRunState {
  if (states.includes('approved')) return 'approved'
  return states.includes('sent') ? 'sent' : 'paid'
}
