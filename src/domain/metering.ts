/**
 * The meter. Money is held before it is spent: every running segment has a hold, the meter charges elapsed time to the
 * hold and tops the hold up from the balance. When the balance is empty, the time that the hold still covers is known to
 * the millisecond, and the segment ends then. So an account never goes below zero, and a late meter charges the same
 * amounts, only later.
 *
 * A charge is always the cost of the whole segment so far minus earlier charges, so the parts add up to exactly the whole.
 */
import { addMs, earlier, HOUR_MS, later, MINUTE_MS, type Instant } from '../base/instant.ts'
import { costOfSpan, maxUsd, minUsd, nanoUsdOf, shareOf, spanAffordable, zeroUsd, type NanoUsd } from '../base/money.ts'

/** The time a hold should cover after a top-up, and the threshold for a top-up. */
export const HOLD_COVERS_MS = HOUR_MS
const TOP_UP_BELOW_MS = HOUR_MS / 2
/** Interval between charges of a running segment, unless it must be charged earlier. */
export const SETTLE_EVERY_MS = 5 * MINUTE_MS

export interface OpenSegment {
  readonly startedAt: Instant
  readonly pricePerHour: NanoUsd
  readonly settledUntil: Instant
  readonly settled: NanoUsd
  readonly supplierPaid: NanoUsd
  /** null: the house's own machine. */
  readonly platformFeeBp: number | null
}

export interface Funds {
  /** The amount in the hold of this segment. */
  readonly held: NanoUsd
  /** The account's available balance, from which the hold can be topped up. */
  readonly available: NanoUsd
  /** Total that the limits of the rental and its key still allow, from `settled` on. null: no limits. */
  readonly allowance: NanoUsd | null
  /** The hold covers the whole term, and limits were checked at the order: money cannot end it early. */
  readonly committed: boolean
}

export interface Settlement {
  /** The new time up to which the segment is settled. */
  readonly until: Instant
  readonly charge: NanoUsd
  readonly supplierShare: NanoUsd
  readonly topUp: NanoUsd
  /** Set when the money or a limit runs out: the segment ends at that instant. */
  readonly endsAt: Instant | null
  readonly endReason: 'balance_empty' | 'spending_limit' | null
  /** When the meter should run again. */
  readonly dueAt: Instant
}

export function costUntil(segment: Pick<OpenSegment, 'startedAt' | 'pricePerHour'>, until: Instant): NanoUsd {
  return costOfSpan(segment.pricePerHour, Math.max(0, until - segment.startedAt))
}

/** Cost since the last charge. */
export function accrued(segment: OpenSegment, now: Instant): NanoUsd {
  return nanoUsdOf(costUntil(segment, later(now, segment.settledUntil)) - segment.settled)
}

/** Plans the charge up to `now`, or until the money runs out, and the top-up after it. */
export function planSettlement(segment: OpenSegment, funds: Funds, now: Instant): Settlement {
  const { until, total, ceiling, lastAffordable, ends, endReason } = chargeable(segment, funds, now)
  const charge = nanoUsdOf(total - segment.settled)
  const heldAfter = nanoUsdOf(funds.held - charge)
  const enough = funds.committed || heldAfter >= costOfSpan(segment.pricePerHour, TOP_UP_BELOW_MS)
  const cover = ends ? total : minUsd(ceiling, costUntil(segment, addMs(until, HOLD_COVERS_MS)))
  const topUp = enough ? zeroUsd : maxUsd(nanoUsdOf(cover - total - heldAfter), zeroUsd)
  const nextSettlement = addMs(now, SETTLE_EVERY_MS)
  return {
    until,
    charge,
    supplierShare: supplierShare(segment, total),
    topUp,
    endsAt: ends ? until : null,
    endReason,
    dueAt: ends ? until : funds.committed ? nextSettlement : earlier(nextSettlement, lastAffordable),
  }
}

/** Closes a segment at `end`, or when the money ran out. Tops up only what a late meter left uncovered. */
export function planClosing(segment: OpenSegment, funds: Funds, end: Instant): Settlement {
  const { until, total, endReason } = chargeable(segment, funds, end)
  const charge = nanoUsdOf(total - segment.settled)
  const topUp = funds.committed ? zeroUsd : maxUsd(nanoUsdOf(charge - funds.held), zeroUsd)
  return { until, charge, supplierShare: supplierShare(segment, total), topUp, endsAt: until, endReason, dueAt: until }
}

/** The time and amount that can be charged: up to `now`, unless the money or a limit runs out earlier. */
function chargeable(segment: OpenSegment, funds: Funds, now: Instant) {
  const requestedEnd = later(now, segment.settledUntil)
  const payable = nanoUsdOf(segment.settled + funds.held + funds.available)
  const allowed = funds.allowance === null ? null : nanoUsdOf(segment.settled + maxUsd(funds.allowance, zeroUsd))
  const limited = allowed !== null && allowed < payable
  const ceiling = limited ? allowed : payable
  // The last instant that the funds cover.
  const lastAffordable = addMs(segment.startedAt, spanAffordable(segment.pricePerHour, ceiling))
  const ends = !funds.committed && lastAffordable <= requestedEnd
  const until = ends ? later(lastAffordable, segment.settledUntil) : requestedEnd
  const endReason = ends ? (limited ? ('spending_limit' as const) : ('balance_empty' as const)) : null
  return { until, total: costUntil(segment, until), ceiling, lastAffordable, ends, endReason }
}

/** The supplier gets the price minus the fee, computed on the total so far, so that rounding errors do not add up. */
function supplierShare(segment: Pick<OpenSegment, 'platformFeeBp' | 'supplierPaid'>, total: NanoUsd): NanoUsd {
  if (segment.platformFeeBp === null) return zeroUsd
  return nanoUsdOf(shareOf(total, 10_000 - segment.platformFeeBp) - segment.supplierPaid)
}
