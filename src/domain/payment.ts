/** How the tax of a payment is divided between its refunds and disputes. The processor knows whole cents only. */
import { centsRoundedDown, nanoUsdOf, usd, type NanoUsd } from '../base/money.ts'

const CENT: NanoUsd = usd('0.01')

/** One top-up by card. */
export const MIN_TOP_UP: NanoUsd = usd('5')
export const MAX_TOP_UP: NanoUsd = usd('10000')

export interface Part {
  /** Credit that goes back. */
  readonly amount: NanoUsd
  readonly tax: NanoUsd
}

/**
 * The tax that goes back with a part of a payment, so that all parts together get all of it: the share of what is back
 * afterwards, less what went back before.
 */
export function taxOfRefund(paid: Part, before: Part, amount: NanoUsd): NanoUsd {
  const back = nanoUsdOf(before.amount + amount)
  const share = floorCents((paid.tax * back) / paid.amount)
  return nanoUsdOf(share > before.tax ? share - before.tax : 0n)
}

/** Divides what a dispute takes, tax included, as far as the rest of its payment goes. */
export function partOfDispute(remaining: Part, gross: NanoUsd): Part {
  const total = remaining.amount + remaining.tax
  if (gross >= total) return remaining
  const tax = floorCents((gross * remaining.tax) / total)
  return { amount: nanoUsdOf(gross - tax), tax }
}

/** undefined: not a whole number of cents. */
export function centsOf(amount: NanoUsd): number | undefined {
  return amount % CENT === 0n ? centsRoundedDown(amount) : undefined
}

export function usdOfCents(cents: number): NanoUsd {
  return nanoUsdOf(BigInt(cents) * CENT)
}

function floorCents(amount: bigint): NanoUsd {
  return nanoUsdOf(amount - (amount % CENT))
}
