/** Billing: request costs, usage, balance, statement, invoices. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { pageQuery, timestamp, unbilledUsd, usdAmount } from './shared.ts'

const month = z.string().regex(/^\d{4}-(0[1-9]|1[0-2])$/, 'Must be a month such as "2026-11"')
const day = z.iso.date()

const rentalName = z
  .object({
    kind: z.enum(['virtual-machine', 'bare-metal', 'container']),
    name: z.string().nullable(),
    label: z.string().nullable(),
  })
  .meta({ id: 'RentalName' })
export type RentalName = z.output<typeof rentalName>

/** Kinds of postings that change a balance. */
export const statementKinds = [
  'purchase',
  'credit',
  'adjustment',
  'refund',
  'charge',
  'payout',
  'credit_draw',
  'credit_repayment',
  'payment_refund',
  'dispute',
  'dispute_return',
  'debt_repayment',
  'payout_return',
] as const

export const statementLine = z
  .object({
    id: z.string(),
    at: timestamp,
    kind: z.enum(statementKinds),
    memo: z.string(),
    amountUsd: usdAmount.describe('Positive: the balance increased'),
    balanceAfterUsd: usdAmount,
    rentalId: z.number().nullable(),
    rental: rentalName.nullable().describe('Name of the rental'),
    volumeId: z.number().nullable(),
    reason: z.string().nullable(),
  })
  .meta({ id: 'StatementLine' })

const invoiceLine = z.object({
  description: z.string(),
  quantity: z.string(),
  unitPriceUsd: usdAmount.nullable(),
  amountUsd: usdAmount,
})

export const invoiceRecord = z
  .object({
    number: z.string(),
    month,
    status: z.enum(['open', 'final']).describe('open: the month has not ended'),
    account: z.object({ id: z.string(), name: z.string() }),
    issuedAt: timestamp,
    openingBalanceUsd: usdAmount,
    lines: z.array(invoiceLine),
    chargesUsd: usdAmount,
    payments: z.array(invoiceLine),
    paymentsUsd: usdAmount,
    closingBalanceUsd: usdAmount,
  })
  .meta({ id: 'Invoice' })

const billing = { family: 'v2', tag: 'Usage and billing' } as const

const purchaseSource = z
  .enum(['signup_promo', 'stripe_purchase', 'operator_credit', 'refund'])
  .describe('A welcome credit, a payment, a credit from the operator, or a refund')
export type PurchaseSource = z.infer<typeof purchaseSource>

export const billingEndpoints = {
  getRequestCost: endpoint({
    ...billing,
    method: 'POST',
    path: '/v2/usage/request-cost',
    access: ['inference', 'billing:read'],
    summary: 'Get the cost of inference requests in nano-dollars',
    description: 'IDs come from the `X-Inference-Request-Id` header of inference responses. Unknown IDs are left out.',
    errors: [400, 401, 403, 500],
    body: z.object({ requestIds: z.array(z.string()).max(limits.requestIds) }).meta({ id: 'RequestCostQuery' }),
    response: z.strictObject({
      requests: z.array(z.strictObject({ requestId: z.string(), costNanoUsd: z.number() })).max(limits.requestIds),
    }),
  }),
  getUsageSummary: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/usage/summary',
    access: ['billing:read'],
    summary: 'Summarize spending by day, model, key or rental',
    errors: [400, 401, 403, 500],
    query: z.strictObject({
      from: day.optional().describe('First day (UTC); default: 30 days ago'),
      to: day.optional().describe('Last day (UTC); default: today'),
      by: z.enum(['day', 'model', 'key', 'rental']).default('day'),
      daily: z.stringbool().optional().describe(`Also by day, for up to ${limits.usageDailyDays} days`),
    }),
    response: z.object({
      from: day,
      to: day,
      by: z.enum(['day', 'model', 'key', 'rental']),
      totalUsd: usdAmount,
      rows: z.array(
        z.object({
          group: z.string(),
          costUsd: usdAmount,
          requests: z.number().describe('Billed inference requests, including those canceled by the client'),
          rental: rentalName.nullable().describe('Name of the rental, if the group is a rental'),
        }),
      ),
      days: z
        .array(z.object({ day, group: z.string(), costUsd: usdAmount }))
        .optional()
        .describe('With `daily`: spending of each group on each day, oldest first, days without any left out'),
    }),
  }),
  getCustomerBalance: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/customer/balance',
    access: ['billing:read'],
    summary: 'Get the exact balance and how long it lasts',
    errors: [400, 401, 403, 500],
    response: z.object({
      balanceUsd: usdAmount.describe('Exactly availableUsd + heldUsd, after `unbilledUsd`'),
      unbilledUsd: unbilledUsd,
      availableUsd: usdAmount.describe('Available for new rentals'),
      heldUsd: usdAmount.describe('On hold for running machines, volumes, inference and reserved terms'),
      hourlySpendUsd: usdAmount.describe('Current spend per hour; unreachable machines are not charged'),
      volumeSpendUsd: usdAmount.describe('The part of hourlySpendUsd for volumes; the rest is for rentals'),
      emptyAt: timestamp
        .nullable()
        .describe('When on-demand charges will use up the balance; reserved terms are paid from their own hold'),
      runway: z
        .object({ fundsUsd: usdAmount, hourlySpendUsd: usdAmount })
        .describe('Balance and spend per hour without reserved terms'),
      creditLineUsd: usdAmount.describe('Maximum that reserved orders can hold beyond the balance'),
      creditUsedUsd: usdAmount.describe('Credit in use; payments repay it first'),
      debtUsd: usdAmount.describe('Owed after a disputed payment; payments repay it first, and nothing can be ordered'),
      earningsUsd: usdAmount.describe('Unpaid supplier earnings'),
    }),
  }),
  getStatement: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/customer/statement',
    access: ['billing:read'],
    summary: 'List every change to the balance, newest first',
    errors: [400, 401, 403, 500],
    query: pageQuery,
    response: z.object({ lines: z.array(statementLine), nextCursor: z.string().nullable() }),
  }),
  listInvoices: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/invoices',
    access: ['billing:read'],
    summary: 'List invoices (one per month)',
    errors: [400, 401, 403, 500],
    response: z.object({
      invoices: z.array(
        z.object({ number: z.string(), month, status: z.enum(['open', 'final']), chargesUsd: usdAmount }),
      ),
    }),
  }),
  getInvoice: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/invoices/{month}',
    access: ['billing:read'],
    summary: 'Get an invoice',
    errors: [400, 401, 403, 404, 500],
    params: z.object({ month }),
    response: invoiceRecord,
  }),
  getInvoicePage: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/invoices/{month}/html',
    access: ['billing:read'],
    summary: 'Get an invoice as a page to print or save as PDF',
    errors: [400, 401, 403, 404, 500],
    params: z.object({ month }),
    response: z.string(),
    answers: 'html',
  }),
  getCurrentBalance: endpoint({
    method: 'GET',
    path: '/billing/get_current_balance',
    family: 'v1',
    tag: 'Usage and billing',
    access: ['billing:read'],
    summary: 'Get the balance',
    errors: [401, 403, 500],
    response: z.object({
      credits: z.int().describe('Cents, rounded down'),
      balance_usd: usdAmount,
      hourly_spend_usd: usdAmount,
      empty_at: timestamp.nullable(),
    }),
  }),
  getPurchaseHistory: endpoint({
    method: 'GET',
    path: '/billing/purchase_history',
    family: 'v1',
    tag: 'Usage and billing',
    access: ['billing:read'],
    summary: 'List payments and credits',
    errors: [401, 403, 500],
    response: z.object({
      purchase_history: z.array(
        z.object({
          amount: z.string().describe('Cents'),
          timestamp: z.string(),
          source: purchaseSource,
          memo: z.string().optional().describe('Text on the statement'),
        }),
      ),
    }),
  }),
}
