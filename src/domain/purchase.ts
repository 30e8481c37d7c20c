/** Computes our cost of a machine or volume of another cloud, by the rules of its vendor. */
import { addMs, later, type Instant } from '../base/instant.ts'
import { costOfSpan, nanoUsdOf, spanAffordable, type NanoUsd } from '../base/money.ts'

export interface BillingRules {
  /** Each started increment is billed whole. */
  readonly incrementMs: number
  /** The minimum time billed, even if the machine ends earlier. */
  readonly minimumMs: number
}

/**
 * The time up to which the vendor bills a machine that was bought and ended at these times. The first increment begins
 * with the purchase.
 */
export function billedUntil(boughtAt: Instant, endedAt: Instant, { incrementMs, minimumMs }: BillingRules): Instant {
  const spanMs = Math.max(0, endedAt - boughtAt)
  const wholeMs = Math.max(1, Math.ceil(spanMs / incrementMs)) * incrementMs
  return later(endedAt, addMs(boughtAt, Math.max(wholeMs, minimumMs)))
}

export interface OpenPurchase {
  readonly startedAt: Instant
  readonly pricePerHour: NanoUsd
  readonly settled: NanoUsd
}

/** The amount due up to an instant, beyond the settled amount. */
export function costDue({ startedAt, pricePerHour, settled }: OpenPurchase, until: Instant): NanoUsd {
  return nanoUsdOf(costOfSpan(pricePerHour, Math.max(0, until - startedAt)) - settled)
}

/** For how long a machine can exist within a budget, counting its minimum and whole increments. 0: not at all. */
export function affordableMs(pricePerHour: NanoUsd, budget: NanoUsd, { incrementMs, minimumMs }: BillingRules): number {
  const wholeMs = Math.floor(spanAffordable(pricePerHour, budget) / incrementMs) * incrementMs
  return wholeMs < Math.max(minimumMs, incrementMs) ? 0 : wholeMs
}
