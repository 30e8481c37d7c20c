/**
 * A point in time is a whole number of milliseconds since 1970 (UTC). Only `systemClock` reads
 * the machine's time; everything else gets a `Clock`, so a test can simulate thirty days in a millisecond.
 */

declare const instant: unique symbol
export type Instant = number & { readonly [instant]: true }

export interface Clock {
  now(): Instant
  /** Waits on a clock that does not run at the speed of real time. Absent: the clock does. */
  wait?(ms: number, signal: AbortSignal): Promise<void>
}

export const systemClock: Clock = { now: () => instantOf(Date.now()) }

export const SECOND_MS = 1_000
export const MINUTE_MS = 60 * SECOND_MS
export const HOUR_MS = 60 * MINUTE_MS
export const DAY_MS = 24 * HOUR_MS

export function instantOf(ms: number): Instant {
  return ms as Instant
}

export function addMs(at: Instant, ms: number): Instant {
  return instantOf(at + ms)
}

export function earlier(a: Instant, b: Instant): Instant {
  return a < b ? a : b
}

export function later(a: Instant, b: Instant): Instant {
  return a > b ? a : b
}

/** RFC 3339, UTC, milliseconds: `2026-11-14T12:00:00.000Z`. */
export function formatInstant(at: Instant): string {
  return new Date(at).toISOString()
}

/** The UTC day: `2026-01-31`. */
export function formatDay(at: Instant): string {
  return formatInstant(at).slice(0, 10)
}

export function formatInstantOrNull(at: Instant | null): string | null {
  return at === null ? null : formatInstant(at)
}

/** The same with the offset written as `+00:00`, for the one client that cannot parse `Z`. */
export function formatInstantWithOffset(at: Instant): string {
  return formatInstant(at).replace('Z', '+00:00')
}

/** Rejects days such as February 30, which `Date.parse` would move to the next month. */
export function parseInstant(text: string): Instant | undefined {
  const [day = text] = text.split('T')
  const [midnight, ms] = [Date.parse(day), Date.parse(text)]
  if (Number.isNaN(midnight) || Number.isNaN(ms)) return undefined
  return new Date(midnight).toISOString().startsWith(day) ? instantOf(ms) : undefined
}

/** Converts for the store: PostgreSQL's driver takes a `Date`. */
export function toDate(at: Instant): Date {
  return new Date(at)
}

export function toDateOrNull(at: Instant | null): Date | null {
  return at === null ? null : new Date(at)
}

/** First instant of the UTC day or month that holds `at`. */
export function startOfDay(at: Instant): Instant {
  return instantOf(Math.floor(at / DAY_MS) * DAY_MS)
}

export function startOfMonth(at: Instant): Instant {
  const date = new Date(at)
  return instantOf(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1))
}

export function startOfNextMonth(at: Instant): Instant {
  const date = new Date(at)
  return instantOf(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1))
}
