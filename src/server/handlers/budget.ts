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
import { formatInstant, type Instant } from '../../base/instant.ts'
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
    const idempotency = { key: idempotencyKey, operation, request: { body } }
    const answer = await createOnce(app, actor, idempotency, async (tx) => {
      const { monthlyUsd: amount, alertsPercent: alerts, ...scope } = body
      const created = await createBudget(tx, actor, { ...scope, amount, alerts })
      if (!created.ok) return created
      ;({ budget } = created.value)
      return ok(budgetOnWire(created.value, app.clock.now()))
    })
    if (answer.ok && budget !== undefined) await enforceBudget(app, budget)
    return answer
  },

  changeBudget: async (app, { actor, params, body }) => {
    const { name, monthlyUsd: amount, alertsPercent: alerts, action } = body
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

function budgetOnWire({ budget, spent: amountSpent }: BudgetWithSpend, now: Instant): ResponseOf<Api['createBudget']> {
  return {
    id: budget.id,
    name: budget.name,
    scope: budget.scope,
    scopeValue: budget.scope === 'account' ? null : budget.scopeValue,
    monthlyUsd: budget.amount,
    alertsPercent: [...budget.alerts],
    action: budget.action,
    month: formatInstant(now).slice(0, 7),
    spentUsd: amountSpent,
    spentPercent: percentSpent(amountSpent, budget.amount),
    exceededAt: marksFor(budget.marks, now).exceededAt,
    blocks: isBlocking(budget, now),
    createdAt: budget.createdAt,
    updatedAt: budget.updatedAt,
  }
}
