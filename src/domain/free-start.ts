/**
 * Free time of starts. A replica costs its customer nothing until its first answer, and its supplier earns nothing
 * meanwhile. Without a limit, an image that never answers could compute for free. So each account has some GPU time for
 * starts per day (UTC); when it is used up, a start is charged, and its supplier paid, like any rental.
 */
import { later, type Instant } from '../base/instant.ts'

/** A period in which GPUs of a starting replica were free of charge. */
export interface FreeSpan {
  readonly from: Instant
  /** null: the period has not ended. */
  readonly until: Instant | null
  readonly gpus: number
}

/** GPU time of the spans from `since` until `now`, in GPU-milliseconds. */
export function freeGpuMs(spans: readonly FreeSpan[], since: Instant, now: Instant): number {
  return spans.reduce((sum, { from, until, gpus }) => {
    const ms = Math.min(until ?? now, now) - later(from, since)
    return sum + Math.max(0, ms) * gpus
  }, 0)
}

/** The first instant at which the spans have used up the allowance, to the millisecond. null: not until now. */
export function freeUntil(
  spans: readonly FreeSpan[],
  allowanceGpuMs: number,
  since: Instant,
  now: Instant,
): Instant | null {
  if (freeGpuMs(spans, since, now) < allowanceGpuMs) return null
  // Usage grows with time, so a binary search finds the instant.
  let [low, high] = [since as number, now as number]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (freeGpuMs(spans, since, middle as Instant) >= allowanceGpuMs) high = middle
    else low = middle + 1
  }
  return low as Instant
}
