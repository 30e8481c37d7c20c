/**
 * The meter. Money is set aside before it is spent: what runs has a hold, the meter charges the time that has passed
 * out of the hold and tops the hold up from the balance. When there is nothing left to top it up with, the time that
 * the hold still covers is known to the millisecond, and that is when the thing ends. So an account never goes below
 * zero, and a late meter changes nothing but the moment of writing.
 *
 * The cost of a stretch is always the cost of the whole stretch so far, less what was charged before: parts never add
 * up to more or less than the whole.
 */
import { addMs, earlier, HOUR_MS, later, MINUTE_MS, type Instant } from '../base/instant.ts'
import { costOfSpan, maxUsd, minUsd, nanoUsdOf, shareOf, spanAffordable, zeroUsd, type NanoUsd } from '../base/money.ts'

/** How much time a hold should cover after a top-up, and below what it is topped up. */
export const HOLD_COVERS_MS = HOUR_MS
const TOP_UP_BELOW_MS = HOUR_MS / 2
/** How often a running stretch is charged when nothing forces it earlier. */
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
  /** In the hold of this segment. */
  readonly held: NanoUsd
  /** In the account's balance, free for a top-up. */
  readonly available: NanoUsd
  /** What limits (of the rental, of its key) still allow in all, from `settled` on. null: none is set. */
  readonly allowance: NanoUsd | null
  /** The hold covers the whole term, which limits were checked against at the order: nothing can end it early. */
  readonly committed: boolean
}

export interface Settlement {
  /** New high-water mark. */
  readonly until: Instant
  readonly charge: NanoUsd
  readonly supplierShare: NanoUsd
  readonly topUp: NanoUsd
  /** Set when the money (or the allowance) ends: the stretch ends at that very instant. */
  readonly endsAt: Instant | null
  readonly endReason: 'balance_empty' | 'spending_limit' | null
  /** When the meter should look again. */
  readonly dueAt: Instant
}

export function costUntil(segment: Pick<OpenSegment, 'startedAt' | 'pricePerHour'>, until: Instant): NanoUsd {
  return costOfSpan(segment.pricePerHour, Math.max(0, until - segment.startedAt))
}

/** What has run up since the last charge. */
export function accrued(segment: OpenSegment, now: Instant): NanoUsd {
  return nanoUsdOf(costUntil(segment, later(now, segment.settledUntil)) - segment.settled)
}

/** Plans the charge up to `now` (or earlier, where the money ends earlier) and the top-up behind it. */
export function planSettlement(segment: OpenSegment, funds: Funds, now: Instant): Settlement {
  const { until, total, ceiling, lastAffordable, ends, endReason } = chargeable(segment, funds, now)
  const charge = nanoUsdOf(total - segment.settled)
  const heldAfter = nanoUsdOf(funds.held - charge)
  const enough = funds.committed || heldAfter >= costOfSpan(segment.pricePerHour, TOP_UP_BELOW_MS)
  const cover = ends ? total : minUsd(ceiling, costUntil(segment, addMs(until, HOLD_COVERS_MS)))
  const topUp = enough ? zeroUsd : maxUsd(nanoUsdOf(cover - total - heldAfter), zeroUsd)
  const nextLook = addMs(now, SETTLE_EVERY_MS)
  return {
    until,
    charge,
    supplierShare: supplierShare(segment, total),
    topUp,
    endsAt: ends ? until : null,
    endReason,
    dueAt: ends ? until : funds.committed ? nextLook : earlier(nextLook, lastAffordable),
  }
}

/** Closes a stretch at `end`, or earlier where the money ended earlier. Tops up only what a late meter left open. */
export function planClosing(segment: OpenSegment, funds: Funds, end: Instant): Settlement {
  const { until, total, endReason } = chargeable(segment, funds, end)
  const charge = nanoUsdOf(total - segment.settled)
  const topUp = funds.committed ? zeroUsd : maxUsd(nanoUsdOf(charge - funds.held), zeroUsd)
  return { until, charge, supplierShare: supplierShare(segment, total), topUp, endsAt: until, endReason, dueAt: until }
}

/** How far and how much can be charged: the whole time up to `now` unless the money or an allowance ends before. */
function chargeable(segment: OpenSegment, funds: Funds, now: Instant) {
  const wanted = later(now, segment.settledUntil)
  const payable = nanoUsdOf(segment.settled + funds.held + funds.available)
  const allowed = funds.allowance === null ? null : nanoUsdOf(segment.settled + maxUsd(funds.allowance, zeroUsd))
  const limited = allowed !== null && allowed < payable
  const ceiling = limited ? allowed : payable
  // The last instant whose cost can still be paid.
  const lastAffordable = addMs(segment.startedAt, spanAffordable(segment.pricePerHour, ceiling))
  const ends = !funds.committed && lastAffordable <= wanted
  const until = ends ? later(lastAffordable, segment.settledUntil) : wanted
  const endReason = ends ? (limited ? ('spending_limit' as const) : ('balance_empty' as const)) : null
  return { until, total: costUntil(segment, until), ceiling, lastAffordable, ends, endReason }
}

/** The supplier gets the price less the fee, reckoned on the whole so far, so that roundings do not pile up. */
function supplierShare(segment: Pick<OpenSegment, 'platformFeeBp' | 'supplierPaid'>, total: NanoUsd): NanoUsd {
  if (segment.platformFeeBp === null) return zeroUsd
  return nanoUsdOf(shareOf(total, 10_000 - segment.platformFeeBp) - segment.supplierPaid)
}
