/** Budgets over HTTP. */
import {
  changeBudget,
  createBudget,
  deleteBudget,
  enforceBudget,
  listBudgets,
  type BudgetWithSpend,
} from '../../app/money/budget.ts'
import { createOnce } from '../../app/idempotency.ts'
import { formatInstant, formatInstantOrNull, type Instant } from '../../base/instant.ts'
import { formatUsd, usd } from '../../base/money.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { ok } from '../../contract/result.ts'
import { isBlocking, marksFor, percentSpent } from '../../domain/budget.ts'
import { transact } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'

export const budgetHandlers = {
  listBudgets: async (app, { actor }) => {
    const budgets = await listBudgets(app, actor)
    return ok({ budgets: budgets.map((one) => budgetOnWire(one, app.clock.now())) })
  },

  createBudget: async (app, { operation, actor, body, idempotencyKey }) => {
    let budget: BudgetWithSpend['budget'] | undefined
    const once = { key: idempotencyKey, operation, request: { body } }
    const answer = await createOnce(app, actor, once, async (tx) => {
      const { monthlyUsd, alertsPercent: alerts, ...rest } = body
      const made = await createBudget(tx, actor, { ...rest, amount: usd(monthlyUsd), alerts })
      if (!made.ok) return made
      ;({ budget } = made.value)
      return ok(budgetOnWire(made.value, app.clock.now()))
    })
    if (answer.ok && budget !== undefined) await enforceBudget(app, budget)
    return answer
  },

  changeBudget: async (app, { actor, params, body }) => {
    const { name, monthlyUsd, alertsPercent: alerts, action } = body
    const amount = monthlyUsd === undefined ? undefined : usd(monthlyUsd)
    const changed = await transact(app.database, (tx) =>
      changeBudget(tx, actor, params.id, { name, amount, alerts, action }),
    )
    if (!changed.ok) return changed
    await enforceBudget(app, changed.value.budget)
    return ok(budgetOnWire(changed.value, app.clock.now()))
  },

  deleteBudget: async (app, { actor, params }) => {
    const deleted = await transact(app.database, (tx) => deleteBudget(tx, actor, params.id))
    return deleted.ok ? ok({ message: 'Budget deleted' }) : deleted
  },
} satisfies Partial<Handlers>

function budgetOnWire({ budget, spent }: BudgetWithSpend, now: Instant): ResponseOf<Api['createBudget']> {
  return {
    id: budget.id,
    name: budget.name,
    scope: budget.scope,
    scopeValue: budget.scope === 'account' ? null : budget.scopeValue,
    monthlyUsd: formatUsd(budget.amount),
    alertsPercent: [...budget.alerts],
    action: budget.action,
    month: formatInstant(now).slice(0, 7),
    spentUsd: formatUsd(spent),
    spentPercent: percentSpent(spent, budget.amount),
    exceededAt: formatInstantOrNull(marksFor(budget.marks, now).exceededAt),
    blocks: isBlocking(budget, now),
    createdAt: formatInstant(budget.createdAt),
    updatedAt: formatInstantOrNull(budget.updatedAt),
  }
}
