/**
 * Budgets: when to alert, when the whole budget is spent, and what a change of the budget resets. A budget belongs to
 * UTC months; its marks are those of one month, so a new month starts without any.
 */
import { formatInstant, type Instant } from '../base/instant.ts'
import { percentOf, type NanoUsd } from '../base/money.ts'
import type { BudgetAction } from '../contract/budget.ts'

export const defaultAlerts: readonly number[] = [50, 80, 100]

export interface Budget {
  readonly amount: NanoUsd
  /** Percentages, ascending. */
  readonly alerts: readonly number[]
  readonly action: BudgetAction
  readonly marks: BudgetMarks
}

export interface BudgetMarks {
  /** The first day of the month that the marks belong to, such as `2026-11-01`. null: never marked. */
  readonly month: string | null
  /** The highest alert raised so far. 0: none. */
  readonly alerted: number
  readonly exceededAt: Instant | null
}

export interface BudgetStep {
  readonly marks: BudgetMarks
  /** `exceeded` replaces the alert at the same percentage. */
  readonly kind: 'alert' | 'exceeded'
  /** The percentage that was passed. */
  readonly percent: number
}

/** The stored form of a month: the first day of the UTC month. */
export function monthDay(now: Instant): string {
  return `${formatInstant(now).slice(0, 7)}-01`
}

/** Rounded down, so that 100 means the whole budget. A month with more refunds than charges counts as 0. */
export function percentSpent(spent: NanoUsd, amount: NanoUsd): number {
  return spent <= 0n ? 0 : percentOf(spent, amount)
}

export function marksFor(marks: BudgetMarks, now: Instant): BudgetMarks {
  const month = monthDay(now)
  return marks.month === month ? marks : { month, alerted: 0, exceededAt: null }
}

/** The next marks, and what to announce: each percentage once per month, and the highest one if several are passed at once. */
export function budgetStep(budget: Budget, spent: NanoUsd, now: Instant): BudgetStep | undefined {
  const marks = marksFor(budget.marks, now)
  const percent = percentSpent(spent, budget.amount)
  const alerted = Math.max(marks.alerted, highestPassed(budget.alerts, percent))
  const isNewlyExceeded = percent >= 100 && marks.exceededAt === null
  const exceededAt = isNewlyExceeded ? now : marks.exceededAt
  if (alerted === marks.alerted && !isNewlyExceeded) return undefined
  return {
    marks: { month: marks.month, alerted, exceededAt },
    kind: isNewlyExceeded ? 'exceeded' : 'alert',
    percent: isNewlyExceeded ? Math.max(100, alerted) : alerted,
  }
}

/**
 * The marks after the amount or the alerts were changed. Alerts that the new budget has not reached can be raised again,
 * those that it has passed are not repeated, and a budget that is no longer exceeded blocks nothing.
 */
export function marksAfterChange(budget: Budget, spent: NanoUsd, now: Instant): BudgetMarks {
  const marks = marksFor(budget.marks, now)
  const percent = percentSpent(spent, budget.amount)
  return {
    month: marks.month,
    alerted: Math.min(marks.alerted, highestPassed(budget.alerts, percent)),
    exceededAt: percent >= 100 ? marks.exceededAt : null,
  }
}

/** Whether the budget rejects orders and inference now. */
export function isBlocking({ action, marks }: Budget, now: Instant): boolean {
  return action !== 'alert' && marksFor(marks, now).exceededAt !== null
}

function highestPassed(alerts: readonly number[], percent: number): number {
  return Math.max(0, ...alerts.filter((alert) => percent >= alert))
}
