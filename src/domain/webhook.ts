/** Retry delays of deliveries, and when a failing webhook is disabled. */
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, type Instant } from '../base/instant.ts'
import { limits } from '../base/limits.ts'

/** After the first failed attempt, the second and so on; the last applies to all further ones. About 20 hours in total. */
const retryStepsMs = [
  5 * SECOND_MS,
  30 * SECOND_MS,
  2 * MINUTE_MS,
  10 * MINUTE_MS,
  30 * MINUTE_MS,
  1 * HOUR_MS,
  2 * HOUR_MS,
  4 * HOUR_MS,
] as const
const LONGEST_STEP_MS = 4 * HOUR_MS
/** Random variation of each delay, so that deliveries that failed together are not retried together. */
const JITTER = 0.2

const FAILED_IN_A_ROW = 50
const FAILING_MS = 5 * DAY_MS

/** After a rotation both secrets sign for this long. */
export const secretOverlapMs = DAY_MS

/** `gone`: the endpoint answered 410. `failing`: no delivery has succeeded for a long time. */
export type DisabledReason = 'gone' | 'failing'

/**
 * Returns the delay after attempt number `attempts` has failed. undefined: that was the last attempt. `Retry-After` of
 * the endpoint lengthens the delay, up to the longest step, and never shortens it.
 */
export function retryDelayMs(
  attempts: number,
  random: () => number,
  retryAfterMs: number | undefined,
): number | undefined {
  if (attempts >= limits.webhookAttempts) return undefined
  const step = retryStepsMs[Math.max(attempts, 1) - 1] ?? LONGEST_STEP_MS
  const jittered = step * (1 - JITTER + 2 * JITTER * random())
  return Math.round(Math.max(jittered, Math.min(retryAfterMs ?? 0, LONGEST_STEP_MS)))
}

/** `Retry-After` is a number of seconds or a date. */
export function parseRetryAfter(header: string | undefined, now: Instant): number | undefined {
  if (header === undefined) return undefined
  const ms = /^\d{1,9}$/.test(header) ? Number(header) * SECOND_MS : Date.parse(header) - now
  return Number.isNaN(ms) || ms < 0 ? undefined : ms
}

/** `failed`: the number of failures since the last success or change of the webhook; `since`: the time of the first. */
export function isFailing(streak: { failed: number; since: Instant | null }, now: Instant): boolean {
  return streak.failed >= FAILED_IN_A_ROW || (streak.since !== null && now - streak.since >= FAILING_MS)
}
