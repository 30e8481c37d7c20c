/** When a delivery is tried again, and when a webhook has failed for so long that it is turned off. */
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, type Instant } from '../base/instant.ts'
import { limits } from '../base/limits.ts'

/** After the first failed attempt, the second and so on; the last holds for all further ones. About 20 hours in all. */
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
/** Each step is taken with up to this share more or less, so that what failed together does not come back together. */
const JITTER = 0.2

const FAILED_IN_A_ROW = 50
const FAILING_MS = 5 * DAY_MS

/** Both secrets sign for this long after a rotation. */
export const secretOverlapMs = DAY_MS

/** `gone`: the endpoint said so. `failing`: nothing has arrived for long. */
export type DisabledReason = 'gone' | 'failing'

/**
 * How long to wait after attempt number `attempts` has failed. undefined: that was the last. What the endpoint asks for
 * (`Retry-After`) makes the wait longer, never shorter, and no longer than the longest step.
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

/** `failed` deliveries since the last one that arrived (or the last change of the webhook), the first of them then. */
export function isFailing(streak: { failed: number; since: Instant | null }, now: Instant): boolean {
  return streak.failed >= FAILED_IN_A_ROW || (streak.since !== null && now - streak.since >= FAILING_MS)
}
