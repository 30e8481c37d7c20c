/** For how long one binds oneself, and what that saves. */
import { DAY_MS } from '../../src/base/instant.ts'
import { costOfSpan, discounted, type NanoUsd } from '../../src/base/money.ts'
import type { Reply } from '../../src/client/client.ts'
import { money } from '../ui/format.ts'
import type { RadioChoice } from '../ui/radio-choice.ts'

export interface ChosenTerm {
  readonly days: number
  readonly percentage: number
  readonly perHour: NanoUsd
  /** Of the whole term. */
  readonly total: NanoUsd
}

/** The best discount of each term: an account may have one of its own beside everyone's. */
function bestTerms(options: Reply<'listReserveOptions'>): Map<number, number> {
  const best = new Map<number, number>()
  for (const { termPeriodDays: days, discountPercentage } of options) {
    best.set(days, Math.max(best.get(days) ?? 0, discountPercentage))
  }
  return best
}

export function termChoices(options: Reply<'listReserveOptions'>, listPrice: NanoUsd): RadioChoice[] {
  return [
    { value: '', label: 'On demand', detail: `${money(listPrice)} an hour` },
    ...[...bestTerms(options)].map(([days, percentage]) => ({
      value: String(days),
      label: `${days} days, −${percentage} %`,
      detail: `${money(discounted(listPrice, percentage))} an hour`,
    })),
  ]
}

/** undefined: on demand. */
export function chooseTerm(
  options: Reply<'listReserveOptions'>,
  days: number | undefined,
  listPrice: NanoUsd,
): ChosenTerm | undefined {
  const percentage = days === undefined ? undefined : bestTerms(options).get(days)
  if (days === undefined || percentage === undefined) return undefined
  const perHour = discounted(listPrice, percentage)
  return { days, percentage, perHour, total: costOfSpan(perHour, days * DAY_MS) }
}
