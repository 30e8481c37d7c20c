/**
 * The commitment behind a reserved term. The price of the whole term is held with the order and charges are drawn from
 * that hold. Ending early re-rates the time used at the price of the longest term that was completed by then (on demand
 * if none), never above the total of the term, and the rest of the hold is released. Rates are fixed at the order,
 * so the cost of ending is known in advance and later price changes do not affect it.
 */
import { addMs, DAY_MS, later, type Instant } from '../base/instant.ts'
import {
  costOfSpan,
  formatUsdExactly,
  formatUsdForPeople,
  maxUsd,
  minUsd,
  nanoUsdOf,
  sumUsd,
  usd,
  zeroUsd,
  type NanoUsd,
} from '../base/money.ts'
import { costUntil } from './metering.ts'

/** The price per hour for the time used, if the rental ends after at least `days` full days of its term. */
export interface EarlyEndRate {
  readonly days: number
  readonly perHour: NanoUsd
}

export interface Commitment {
  readonly total: NanoUsd
  readonly perHour: NanoUsd
  readonly startsAt: Instant
  readonly endsAt: Instant
  /** Ascending from day 0. */
  readonly rates: readonly EarlyEndRate[]
}

/** Usage of a reserved rental. */
export interface Usage {
  readonly ms: number
  /** Cost of that time at the price of the term. */
  readonly charged: NanoUsd
}

/** A segment of a rental; an open one has no end. */
export interface UsedSegment {
  readonly startedAt: Instant
  readonly endedAt: Instant | null
  readonly pricePerHour: NanoUsd
}

/** The segments of a rental in its term, an open one up to `until`. Time at a price of zero (an outage) does not count. */
export function usageOf(segments: readonly UsedSegment[], until: Instant): Usage {
  const spans = segments.map((segment) => ({ segment, end: segment.endedAt ?? later(until, segment.startedAt) }))
  return {
    ms: spans.reduce((ms, { segment, end }) => ms + (segment.pricePerHour > 0n ? end - segment.startedAt : 0), 0),
    charged: sumUsd(spans.map(({ segment, end }) => costUntil(segment, end))),
  }
}

export interface Ending {
  readonly rate: NanoUsd
  /** Total cost of the rental. */
  readonly cost: NanoUsd
  /** The part charged on top of the price of the term. */
  readonly extra: NanoUsd
  /** The amount released from the hold. */
  readonly returned: NanoUsd
}

/**
 * The rates for a term of `days` at `perHour`, given the other terms on offer with their prices. A rate is never below
 * the price of the term itself, so that ending early never pays.
 */
export function earlyEndRates(
  term: { readonly days: number; readonly perHour: NanoUsd },
  listPrice: NanoUsd,
  shorter: ReadonlyArray<{ readonly days: number; readonly perHour: NanoUsd }>,
): EarlyEndRate[] {
  const steps = shorter.filter(({ days }) => days < term.days).toSorted((one, other) => one.days - other.days)
  return [{ days: 0, perHour: listPrice }, ...steps].map(({ days, perHour }) => ({
    days,
    perHour: maxUsd(perHour, term.perHour),
  }))
}

/** The rate for ending at `end`: the price of the longest term completed by then. */
export function rateAt(commitment: Commitment, end: Instant): NanoUsd {
  if (end >= commitment.endsAt) return commitment.perHour
  const completed = commitment.rates.findLast(({ days }) => addMs(commitment.startsAt, days * DAY_MS) <= end)
  // A term begins with its order, so day 0 is always completed.
  return completed?.perHour ?? commitment.perHour
}

/**
 * The cost of ending. `atFault`: the machine, its host or Berth caused the end, so the time used keeps the price of the
 * term.
 */
export function planEnding(
  commitment: Commitment,
  used: Usage,
  end: Instant,
  options: { readonly atFault: boolean },
): Ending {
  const rate = options.atFault ? commitment.perHour : rateAt(commitment, end)
  const rated = minUsd(costOfSpan(rate, used.ms), commitment.total)
  // At the price of the term nothing is re-rated, not even the remainders of rounding down each segment.
  const extra = rate === commitment.perHour ? zeroUsd : maxUsd(nanoUsdOf(rated - used.charged), zeroUsd)
  const cost = nanoUsdOf(used.charged + extra)
  return { rate, cost, extra, returned: nanoUsdOf(commitment.total - cost) }
}

/** The rule as one sentence, shown before the order and before the end. */
export function earlyEndRule({
  total,
  rates,
}: {
  readonly total: NanoUsd
  readonly rates: readonly EarlyEndRate[]
}): string {
  const [first, ...later] = rates
    // Leaves out steps with the same price.
    .filter(({ perHour }, index) => index === 0 || perHour !== rates[index - 1]?.perHour)
    .map(({ days, perHour }) => `${formatUsdExactly(perHour)}/hr${days === 0 ? '' : ` after ${days} days`}`)
  const steps = later.length === 0 ? '' : ` (${later.join(', ')})`
  return `If you end it early, you pay ${first ?? 'nothing'} for the time used${steps}, at most ${formatUsdForPeople(total)} in total. The rest of the hold is released immediately.`
}

/** The effect of ending now as one sentence, from the amounts in a rental's details. */
export function endNowText(endNow: {
  readonly costUsd: string
  readonly extraUsd: string
  readonly returnedUsd: string
}): string {
  const [cost, extra, returned] = [usd(endNow.costUsd), usd(endNow.extraUsd), usd(endNow.returnedUsd)]
  const early = extra > 0n ? `, including ${formatUsdForPeople(extra)} for ending early` : ''
  return `If you end it now, its total cost is ${formatUsdForPeople(cost)}${early}. ${formatUsdForPeople(returned)} of the hold is released.`
}
