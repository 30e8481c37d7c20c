/** The forecast of a month, and its rule. */
import { startOfNextMonth, type Instant } from '../base/instant.ts'
import { costOfSpan, floorDivide, nanoUsdOf, type NanoUsd } from '../base/money.ts'

/** Inference is extrapolated from this many full days. */
export const MODEL_AVERAGE_DAYS = 7

export interface MonthCost {
  /** Charges less refunds. */
  readonly billed: NanoUsd
  /** The cost accrued since the last charges. */
  readonly unbilled: NanoUsd
  /** The current cost of machines and storage per hour. */
  readonly hourlySpend: NanoUsd
  /** The cost of inference in the last `MODEL_AVERAGE_DAYS` days. */
  readonly recentModels: NanoUsd
}

export interface Forecast {
  readonly spent: NanoUsd
  readonly modelsPerHour: NanoUsd
  readonly atMonthEnd: NanoUsd
}

/**
 * The amount spent so far, plus machines and storage at the current price and inference at its recent average until the
 * end of the month.
 */
export function forecastMonth(cost: MonthCost, now: Instant): Forecast {
  const spent = nanoUsdOf(cost.billed + cost.unbilled)
  // Rounded down, as every cost is.
  const modelsPerHour = nanoUsdOf(floorDivide(cost.recentModels, BigInt(24 * MODEL_AVERAGE_DAYS)))
  const perHour = nanoUsdOf(cost.hourlySpend + modelsPerHour)
  const untilMonthEnd = costOfSpan(perHour, startOfNextMonth(now) - now)
  return { spent, modelsPerHour, atMonthEnd: nanoUsdOf(spent + untilMonthEnd) }
}
