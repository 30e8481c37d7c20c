/** Monthly budgets with alerts and an optional hard stop. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { message, positiveUsd, textIdParams, timestamp, usdAmount } from './shared.ts'

const nameText = z.string().trim().min(1).max(limits.nameChars)

export const budgetScope = z.enum(['account', 'key', 'label']).meta({
  title: 'For',
  description:
    '`account`: all costs. `key`: costs of one API key. `label`: costs of rentals and volumes with this label',
})
export type BudgetScope = z.output<typeof budgetScope>

export const budgetAction = z.enum(['alert', 'block', 'stop', 'terminate']).meta({
  title: 'At 100%',
  description:
    'At 100%. `alert`: only alert. `block`: reject new orders and, for an account budget, inference. `stop`: also stop on-demand rentals. `terminate`: also terminate rentals that cannot be stopped. Volumes and reserved terms are never touched',
})
export type BudgetAction = z.output<typeof budgetAction>

const alertsPercent = z
  .array(z.int().min(1).max(1_000))
  .min(1)
  .max(limits.budgetAlerts)
  .meta({
    title: 'Alert at',
    description: 'Percentages at which to alert, once each per month; default: 50, 80, 100',
    examples: [[50, 80, 100]],
  })
const monthlyAmount = positiveUsd.meta({ title: 'Monthly amount', examples: ['500.00'] })

const budgetRecord = z
  .object({
    id: z.string(),
    name: z.string(),
    scope: budgetScope,
    scopeValue: z.string().nullable().describe('Public ID of the key, or the label; null for the account'),
    monthlyUsd: usdAmount,
    alertsPercent: z.array(z.number()),
    action: budgetAction,
    month: z.string(),
    spentUsd: usdAmount.describe('This month so far, including costs that are not charged yet'),
    spentPercent: z.number().describe('Rounded down'),
    exceededAt: timestamp.nullable().describe('When it reached 100% this month'),
    blocks: z.boolean().describe('Whether it rejects orders right now'),
    createdAt: timestamp,
    updatedAt: timestamp.nullable(),
  })
  .meta({ id: 'Budget' })

const budgets = { family: 'v2', tag: 'Usage and billing' } as const

export const budgetEndpoints = {
  listBudgets: endpoint({
    ...budgets,
    method: 'GET',
    path: '/v2/budgets',
    access: ['billing:read'],
    summary: 'List budgets with what is spent this month',
    errors: [400, 401, 403, 500],
    response: z.object({ budgets: z.array(budgetRecord) }),
  }),
  createBudget: endpoint({
    ...budgets,
    method: 'POST',
    path: '/v2/budgets',
    access: ['billing:write'],
    summary: 'Create a monthly budget',
    description: 'One budget per account, key and label. The month is in UTC. Costs are checked every 30 seconds.',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        name: nameText,
        scope: budgetScope.default('account'),
        scopeValue: z
          .string()
          .min(1)
          .max(limits.labelChars)
          .optional()
          .describe('The public ID of the key, or the label; required for both'),
        monthlyUsd: monthlyAmount,
        alertsPercent: alertsPercent.optional(),
        action: budgetAction.default('alert'),
      })
      .meta({ id: 'CreateBudget' }),
    response: budgetRecord,
    idempotent: true,
  }),
  changeBudget: endpoint({
    ...budgets,
    method: 'PATCH',
    path: '/v2/budgets/{id}',
    access: ['billing:write'],
    summary: 'Change a budget; raising it above what is spent lifts the block',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z
      .strictObject({
        name: nameText.optional(),
        monthlyUsd: monthlyAmount.optional(),
        alertsPercent: alertsPercent.optional(),
        action: budgetAction.optional(),
      })
      .meta({ id: 'ChangeBudget' }),
    response: budgetRecord,
  }),
  deleteBudget: endpoint({
    ...budgets,
    method: 'DELETE',
    path: '/v2/budgets/{id}',
    access: ['billing:write'],
    summary: 'Delete a budget and lift its block',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
}
