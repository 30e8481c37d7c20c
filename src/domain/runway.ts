/** How long the balance lasts, and when to warn. */
import { addMs, HOUR_MS, type Instant } from '../base/instant.ts'
import { nanoUsdOf, spanAffordable, type NanoUsd } from '../base/money.ts'

/** Hours of runway at which a warning is raised, tightest last. */
const runwayWarningsH = [24, 6, 1] as const

export function emptyAt(balance: NanoUsd, hourlySpend: NanoUsd, now: Instant): Instant | null {
  if (hourlySpend <= 0n) return null
  const ms = spanAffordable(hourlySpend, balance)
  // The API cannot represent dates after the year 9999.
  return ms > 250_000_000_000_000 ? null : addMs(now, ms)
}

/** Funds for on-demand charges, and their total per hour. */
export interface Runway {
  readonly funds: NanoUsd
  readonly hourlySpend: NanoUsd
}

/** How long the balance lasts if another `perHour` is charged on demand. Infinity: nothing is charged. */
export function lastsWith(runway: Runway, perHour: NanoUsd): number {
  const spend = nanoUsdOf(runway.hourlySpend + perHour)
  return spend === 0n ? Number.POSITIVE_INFINITY : spanAffordable(spend, runway.funds)
}

export type RunwayChange = { kind: 'warn' | 'relax'; hours: number } | { kind: 'clear' } | { kind: 'none' }

/** Warns once per threshold. When the balance lasts longer again, the mark moves back without an event. */
export function runwayChange(balance: NanoUsd, hourlySpend: NanoUsd, warnedH: number | null): RunwayChange {
  const crossed =
    hourlySpend <= 0n ? [] : runwayWarningsH.filter((hours) => spanAffordable(hourlySpend, balance) < hours * HOUR_MS)
  const tightest = crossed.at(-1)
  if (tightest === undefined) return warnedH === null ? { kind: 'none' } : { kind: 'clear' }
  if (warnedH === null || tightest < warnedH) return { kind: 'warn', hours: tightest }
  return tightest > warnedH ? { kind: 'relax', hours: tightest } : { kind: 'none' }
}
