/** Cost by day and group, and the statement by day: both are sums of the ledger. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { statementKinds } from './billing.ts'
import { endpoint } from './endpoint.ts'
import { pageQuery, usdAmount } from './shared.ts'

const day = z.iso.date()
const billing = { family: 'v2', tag: 'Usage and billing', access: ['billing:read'] } as const

export const costService = z.enum(['machines', 'storage', 'models', 'other'])
export type CostService = z.output<typeof costService>

const costGrouping = z
  .enum(['kind', 'resource', 'key', 'label', 'member'])
  .describe(
    '`kind`: machines, storage, models. `resource`: each rental, volume and model. `key`, `member`: who ordered or called it. `label`: the current label of the rental or volume',
  )
export type CostGrouping = z.output<typeof costGrouping>

const dayRange = {
  from: day.optional().describe('First day (UTC)'),
  to: day.optional().describe('Last day (UTC); default: today'),
}

const costGroup = z
  .object({
    id: z.string().describe('ID of the group; `rest` is everything beyond the largest groups'),
    name: z.string().describe('Name for people'),
    kind: costService.nullable().describe('null: the group has several kinds'),
    costUsd: usdAmount.describe('Charges less refunds'),
  })
  .meta({ id: 'CostGroup' })

export const statementDay = z
  .object({
    day,
    kind: z.enum(statementKinds).exclude(['payout', 'payout_return']),
    description: z.string(),
    service: costService.nullable().describe('null: not a charge or refund'),
    rentalId: z.number().nullable(),
    volumeId: z.number().nullable(),
    model: z.string().nullable(),
    postings: z.number().describe('Ledger postings in this line'),
    amountUsd: usdAmount.describe('Positive: the balance increased'),
    balanceAfterUsd: usdAmount,
  })
  .meta({ id: 'StatementDay' })
export type StatementDay = z.output<typeof statementDay>

export const costEndpoints = {
  getCosts: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/usage/costs',
    summary: 'Get costs by day and group, and a forecast of the month',
    description:
      'The sums are exactly the charges less refunds in the ledger, by the day of the posting. The largest groups are listed; the rest is one group. Forecast: cost of the month so far, plus current hourly spend until its end, plus inference at its average of the last seven days.',
    errors: [400, 401, 403, 500],
    query: z.strictObject({
      ...dayRange,
      from: day.optional().describe('First day (UTC); default: 29 days before `to`'),
      groupBy: costGrouping.default('kind'),
      limit: z.coerce
        .number()
        .int()
        .min(1)
        .max(limits.costGroups)
        .default(limits.costGroupsDefault)
        .describe('Maximum number of groups'),
    }),
    response: z.object({
      from: day,
      to: day,
      groupBy: costGrouping,
      totalUsd: usdAmount,
      groups: z.array(costGroup).describe('Largest first'),
      days: z
        .array(z.object({ day, costUsd: usdAmount, costsUsd: z.array(usdAmount).describe('In the order of `groups`') }))
        .describe('Every day from `from` to `to`'),
      month: z.object({
        month: z.string(),
        spentUsd: usdAmount.describe('This month so far, including costs that are not charged yet'),
        unbilledUsd: usdAmount.describe('Part of it that is not charged yet'),
        hourlySpendUsd: usdAmount.describe('Machines and storage, now'),
        modelsPerHourUsd: usdAmount.describe('Inference, average of the last seven days'),
        forecastUsd: usdAmount.describe('At the end of the month'),
      }),
    }),
  }),
  getDailyStatement: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/billing/statement',
    summary: 'Get the statement by day: one line per day and resource, oldest first',
    errors: [400, 401, 403, 500],
    query: pageQuery.extend({
      ...dayRange,
      from: day.optional().describe('First day (UTC); default: first day of the month of `to`'),
      cursor: z.string().max(600).optional().describe('`nextCursor` from the previous page'),
    }),
    response: z.object({
      from: day,
      to: day,
      openingBalanceUsd: usdAmount.describe('At the start of `from`'),
      closingBalanceUsd: usdAmount.describe('At the end of `to`'),
      lines: z.array(statementDay),
      nextCursor: z.string().nullable(),
    }),
  }),
  exportStatement: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/billing/statement.csv',
    summary: 'Export the statement by day as CSV',
    description:
      'The same lines as the statement by day, between a line with the opening and one with the closing balance.',
    errors: [400, 401, 403, 500],
    query: z.strictObject({
      ...dayRange,
      from: day.optional().describe('First day (UTC); default: first day of the month of `to`'),
    }),
    response: z.string(),
    answers: 'csv',
  }),
}
