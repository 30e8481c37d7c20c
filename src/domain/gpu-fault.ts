/** The price of a rental with broken GPUs, and since when it applies. */
import { earlier, HOUR_MS, later, addMs, type Instant } from '../base/instant.ts'
import { nanoUsdOf, type NanoUsd } from '../base/money.ts'

/**
 * The maximum of charged time that is taken back. A report can be seconds late, but its sender must not undo a month.
 */
const MAX_TAKEN_BACK_MS = HOUR_MS

/** Each GPU has an equal part of the price. */
export function priceOfWorking(price: NanoUsd, gpus: { readonly total: number; readonly faulty: number }): NanoUsd {
  return nanoUsdOf((price * BigInt(Math.max(0, gpus.total - gpus.faulty))) / BigInt(gpus.total))
}

/**
 * The instant from which a broken GPU is free: the reported time of the fault, but not before the open segment, not in
 * the future, and not so far back that a wrong report undoes much.
 */
export function freeFrom(
  faultAt: Instant,
  segment: { readonly startedAt: Instant; readonly settledUntil: Instant },
  now: Instant,
): Instant {
  const earliest = later(segment.startedAt, earlier(segment.settledUntil, addMs(now, -MAX_TAKEN_BACK_MS)))
  return later(earliest, earlier(faultAt, now))
}
