/** A budget's spending: the charges of the month, and the cost of running things that is not charged yet. */
import { earlier, type Instant } from '../../base/instant.ts'
import { nanoUsdOf, sumUsd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { monthDay } from '../../domain/budget.ts'
import { accrued } from '../../domain/metering.ts'
import {
  listAccruing,
  readSpendMany,
  sumScopeSpend,
  type Accruing,
  type StoredBudget,
} from '../../store/ledger/budget.ts'
import type { Db } from '../../store/platform/database.ts'

/** The cost that accrued since the last charges. */
export function unbilledOf(accruing: readonly Accruing[], now: Instant): NanoUsd {
  return sumUsd(accruing.map(({ segment, chargedUntil }) => accrued(segment, earlier(now, chargedUntil ?? now))))
}

/** Unreachable machines are not charged. */
export function hourlySpendOf(accruing: readonly Accruing[]): NanoUsd {
  return sumUsd(accruing.map(({ segment, chargedUntil }) => (chargedUntil === null ? segment.pricePerHour : zeroUsd)))
}

/**
 * Returns the amount spent this month, by budget id. Run it on one snapshot: a charge between two reads would count
 * twice or not at all.
 */
export async function readBudgetSpend(
  db: Db,
  budgets: readonly StoredBudget[],
  now: Instant,
): Promise<Map<string, NanoUsd>> {
  const accountIds = [...new Set(budgets.map(({ accountId }) => accountId))]
  const month = monthDay(now)
  const accruing = await listAccruing(db, accountIds)
  const charged = await readSpendMany(db, accountIds, month)
  const spentById = new Map<string, NanoUsd>()
  for (const budget of budgets) {
    const running = (accruing.get(budget.accountId) ?? []).filter((one) => belongsTo(one, budget))
    const billed =
      budget.scope === 'account'
        ? (charged.get(budget.accountId) ?? zeroUsd)
        : await sumScopeSpend(db, budget, { first: month, last: lastDayOf(now) })
    spentById.set(budget.id, nanoUsdOf(billed + unbilledOf(running, now)))
  }
  return spentById
}

function belongsTo({ apiKeyId, label }: Accruing, { scope, scopeValue }: StoredBudget): boolean {
  if (scope === 'account') return true
  return scope === 'key' ? apiKeyId === scopeValue : label === scopeValue
}

/** Charges are never in the future, so the last day of the month is the latest that can have any. */
function lastDayOf(now: Instant): string {
  return `${monthDay(now).slice(0, 7)}-${String(daysIn(now)).padStart(2, '0')}`
}

function daysIn(now: Instant): number {
  const date = new Date(now)
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate()
}
