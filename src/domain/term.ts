/** Terms and prices: the hourly price of an order, and the commitment and end of a reserved term. */
import { addMs, DAY_MS, type Instant } from '../base/instant.ts'
import { costOfSpan, discounted, floorDivide, minUsd, nanoUsdOf, type NanoUsd } from '../base/money.ts'
import { failField, ok, type Result } from '../contract/result.ts'
import { diskSize } from './machine.ts'
import { earlyEndRates, type Commitment, type EarlyEndRate } from './commitment.ts'

export interface Term {
  readonly termType: 'on-demand' | 'reserved' | 'private-cloud'
  readonly effectiveAt: Instant
  readonly costPerHour: NanoUsd
  /** null: on demand. */
  readonly reservation: {
    readonly endsAt: Instant
    readonly periodDays: number
    readonly discountPercentage: number
    readonly originalCostPerHour: NanoUsd
  } | null
}

export interface TermRequest {
  readonly termType: 'on-demand' | 'reserved'
  readonly termPeriodDays?: number | undefined
  readonly discountPercentage: number
}

export interface ReserveOption {
  readonly termPeriodDays: number
  readonly discountPercentage: number
}

/** Returns the term for a request at a list price, or the invalid field. */
export function grantTerm(
  request: TermRequest,
  listPrice: NanoUsd,
  options: readonly ReserveOption[],
  now: Instant,
): Result<Term> {
  if (request.termType === 'on-demand') {
    if (request.discountPercentage !== 0) {
      return failField(['discountPercentage'], 'discount_not_granted', { fault: 'on_demand' })
    }
    return ok({ termType: 'on-demand', effectiveAt: now, costPerHour: listPrice, reservation: null })
  }
  const days = request.termPeriodDays
  if (days === undefined) {
    return failField(['termPeriodDays'], 'term_period_missing')
  }
  const granted = options.filter((option) => option.termPeriodDays === days)
  if (granted.length === 0) {
    const offered = [...new Set(options.map((option) => option.termPeriodDays))].sort((a, b) => a - b)
    return failField(['termPeriodDays'], 'term_not_offered', { days, offered })
  }
  const best = Math.max(...granted.map((option) => option.discountPercentage))
  const percentage = request.discountPercentage
  if (percentage < 0 || Math.round(percentage * 100) / 100 !== percentage) {
    return failField(['discountPercentage'], 'discount_not_granted', { fault: 'format' })
  }
  if (percentage > best) {
    return failField(['discountPercentage'], 'discount_not_granted', { fault: { days, maxPercentage: best } })
  }
  return ok({
    termType: 'reserved',
    effectiveAt: now,
    costPerHour: discounted(listPrice, percentage),
    reservation: {
      endsAt: addMs(now, days * DAY_MS),
      periodDays: days,
      discountPercentage: percentage,
      originalCostPerHour: listPrice,
    },
  })
}

export interface TermQuote {
  readonly days: number
  readonly percentage: number
  readonly perHour: NanoUsd
  /** The price of the whole term: held with the order, and its maximum cost. */
  readonly total: NanoUsd
  /** Rates for the used time if the term ends early. */
  readonly rates: readonly EarlyEndRate[]
}

/** One term at the granted discount. */
export function quoteTerm(
  term: { readonly days: number; readonly percentage: number },
  options: readonly ReserveOption[],
  listPrice: NanoUsd,
): TermQuote {
  const { days, percentage } = term
  const perHour = discounted(listPrice, percentage)
  const others = bestDiscounts(options).map((one) => ({ ...one, perHour: discounted(listPrice, one.percentage) }))
  return {
    days,
    percentage,
    perHour,
    total: costOfSpan(perHour, days * DAY_MS),
    rates: earlyEndRates({ days, perHour }, listPrice, others),
  }
}

/** Quotes each term at its best discount, shortest first. */
export function quoteTerms(options: readonly ReserveOption[], listPrice: NanoUsd): TermQuote[] {
  return bestDiscounts(options).map((term) => quoteTerm(term, options, listPrice))
}

/** Shortest term first. An account can have its own discounts beside the public ones. */
export function bestDiscounts(options: readonly ReserveOption[]): Array<{ days: number; percentage: number }> {
  const best = new Map<number, number>()
  for (const { termPeriodDays: days, discountPercentage } of options) {
    best.set(days, Math.max(best.get(days) ?? 0, discountPercentage))
  }
  return [...best].map(([days, percentage]) => ({ days, percentage })).toSorted((one, other) => one.days - other.days)
}

/** The commitment of an order under this term. null: on demand. */
export function commitmentOf(term: Term, options: readonly ReserveOption[]): Commitment | null {
  const { reservation } = term
  if (reservation === null) return null
  const { periodDays: days, discountPercentage: percentage, originalCostPerHour } = reservation
  const { perHour, total, rates } = quoteTerm({ days, percentage }, options, originalCostPerHour)
  return { perHour, total, rates, startsAt: term.effectiveAt, endsAt: reservation.endsAt }
}

/** The on-demand term after a reserved one, at the list price fixed with the order. */
export function onDemandAfter(term: Term): Term {
  if (term.reservation === null) throw new Error('only a reserved term is followed by another')
  return {
    termType: 'on-demand',
    effectiveAt: term.reservation.endsAt,
    costPerHour: term.reservation.originalCostPerHour,
    reservation: null,
  }
}

/** 365 days / 12. */
const HOURS_PER_MONTH = 730n

/**
 * The hourly price of a stopped rental's disk, rounded down. A started GB counts as whole. It is never more than the
 * price of the running rental.
 */
export function stoppedPricePerHour(perGbMonth: NanoUsd, diskGb: number, term: Pick<Term, 'costPerHour'>): NanoUsd {
  const ofDisk = nanoUsdOf(floorDivide(perGbMonth * BigInt(Math.ceil(diskGb)), HOURS_PER_MONTH))
  return minUsd(ofDisk, term.costPerHour)
}

export interface DiskOffer {
  /** The disk that comes with the GPUs. */
  readonly shareGb: number
  /** null: the rental cannot be stopped. */
  readonly stoppedDiskPerGbMonth: NanoUsd | null
}

/** The disk size of an order, and the price while the rental is stopped. */
export function quoteDisk(
  { shareGb, stoppedDiskPerGbMonth: perGbMonth }: DiskOffer,
  ordered: number | null,
  costPerHour: NanoUsd,
): { readonly gb: number; readonly stoppedPrice: NanoUsd | null } {
  const gb = diskSize(shareGb, ordered, perGbMonth !== null)
  return { gb, stoppedPrice: perGbMonth === null ? null : stoppedPricePerHour(perGbMonth, gb, { costPerHour }) }
}

/**
 * The price of a rental that runs without its GPUs, for its CPUs and its disk, rounded down. It is never more than the
 * price with GPUs.
 */
export function cpuOnlyPricePerHour(
  perCpuHour: NanoUsd,
  cpuCount: number,
  ofDisk: NanoUsd,
  term: Pick<Term, 'costPerHour'>,
): NanoUsd {
  const ofCpus = floorDivide(perCpuHour * BigInt(Math.round(cpuCount * 1_000)), 1_000n)
  return minUsd(nanoUsdOf(ofCpus + ofDisk), term.costPerHour)
}

export function pricePerHour(perGpuHour: NanoUsd, gpuCount: number): NanoUsd {
  return nanoUsdOf(perGpuHour * BigInt(gpuCount))
}

/** The price per GPU-hour, rounded down. */
export function perGpuHour(costPerHour: NanoUsd, gpuCount: number): NanoUsd {
  return nanoUsdOf(floorDivide(costPerHour, BigInt(gpuCount)))
}
