/** Warnings before a reserved term ends. */
import { DAY_MS, type Instant } from '../base/instant.ts'

/** Days before the end at which the customer is told, tightest last. */
export const termWarningDays: readonly number[] = [7, 2, 1]

/**
 * Returns the warning that is due now, if it was not sent yet. A term shorter than a warning's time skips that warning.
 */
export function dueTermWarning(endsAt: Instant, warnedDays: number | null, now: Instant): number | undefined {
  const passed = termWarningDays.filter((days) => endsAt - now <= days * DAY_MS)
  const tightest = passed.at(-1)
  if (tightest === undefined || endsAt <= now) return undefined
  return warnedDays === null || tightest < warnedDays ? tightest : undefined
}
