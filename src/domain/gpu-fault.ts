/** The price of a rental with broken GPUs, and since when it applies. */
import { earlier, HOUR_MS, later, addMs, type Instant } from '../base/instant.ts'
import { nanoUsdOf, type NanoUsd } from '../base/money.ts'

/** How much charged time is taken back at most. A report can be late by seconds; its sender must not undo a month. */
const MAX_TAKEN_BACK_MS = HOUR_MS

/** Each GPU has an equal part of the price. */
export function priceOfWorking(price: NanoUsd, gpus: { readonly total: number; readonly faulty: number }): NanoUsd {
  return nanoUsdOf((price * BigInt(Math.max(0, gpus.total - gpus.faulty))) / BigInt(gpus.total))
}

/**
 * The instant from which a broken GPU costs nothing: that of the fault, within what a host can be believed. It is not
 * before the open segment, and not in the future.
 */
export function freeFrom(
  faultAt: Instant,
  segment: { readonly startedAt: Instant; readonly settledUntil: Instant },
  now: Instant,
): Instant {
  const earliest = later(segment.startedAt, earlier(segment.settledUntil, addMs(now, -MAX_TAKEN_BACK_MS)))
  return later(earliest, earlier(faultAt, now))
}
