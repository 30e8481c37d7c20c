/** Payouts to suppliers: where they are paid, and the runs that pay them. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { reasonText, textIdParams, timestamp, usdAmount } from './shared.ts'

const payoutKind = z
  .enum(['stripe', 'bank'])
  .describe('`stripe`: a transfer to a connected account. `bank`: a bank transfer')
const payoutStates = ['draft', 'approved', 'sent', 'paid', 'failed', 'canceled'] as const
const payoutRunStates = ['draft', 'approved', 'sent', 'paid', 'canceled'] as const
const payoutBlockNames = [
  'no_details',
  'not_confirmed',
  'details_changed',
  'below_minimum',
  'suspended',
  'payments_off',
] as const
const payoutBlock = z
  .enum(payoutBlockNames)
  .describe(
    '`no_details`: it is not known where to pay. `not_confirmed`: Stripe does not pay out to the account yet. `details_changed`: they wait for 72 hours. `payments_off`: the server has no Stripe account of that mode',
  )

const payoutFields = {
  id: z.string(),
  kind: payoutKind,
  state: z
    .enum(payoutStates)
    .describe(
      '`approved`: taken from the earnings. `sent`: on its way. `paid`: Stripe or the operator confirmed it. `failed`: all of it is in the earnings again',
    ),
  amountUsd: usdAmount,
  returnedUsd: usdAmount.describe('What came back, and is in the earnings again'),
  to: z.string().describe('The last characters of the bank account, or Stripe'),
  failure: z.string().nullable().describe('Why it waits, failed or came back'),
  createdAt: timestamp,
  sentAt: timestamp.nullable(),
  endedAt: timestamp.nullable(),
}
export const payoutRecord = z.object(payoutFields).meta({ id: 'Payout' })

const runFields = {
  id: z.string(),
  state: z.enum(payoutRunStates),
  until: timestamp.describe('Earnings that were charged before it are paid'),
  payoutsTotal: z.int(),
  amountUsd: usdAmount.describe('Without canceled payouts'),
  returnedUsd: usdAmount,
  scheduled: z.boolean().describe('Whether the schedule drafted it'),
  createdAt: timestamp,
  approvedAt: timestamp.nullable(),
  exportedAt: timestamp.nullable().describe('When its bank file was written; null: not yet, or there is none'),
  exportedAs: z.string().nullable().describe('Currency and sum of the file, such as "EUR 812.40"'),
  endedAt: timestamp.nullable(),
}
export const runRecord = z.object(runFields).meta({ id: 'PayoutRun' })

const runWithPayouts = z
  .object({
    ...runFields,
    payouts: z
      .array(
        z
          .object({
            ...payoutFields,
            accountId: z.string(),
            accountName: z.string(),
            transferId: z.string().nullable().describe('At Stripe'),
          })
          .meta({ id: 'PayoutOfRun' }),
      )
      .describe(`The largest first, at most ${limits.payoutsPerRun}`),
  })
  .meta({ id: 'PayoutRunWithPayouts' })

const supplierPayouts = z
  .object({
    unpaidUsd: usdAmount,
    payableUsd: usdAmount.describe('Past the holdback, in whole cents'),
    maturingUsd: usdAmount.describe('Charged within the holdback'),
    minimumUsd: usdAmount.describe('A payout is at least this'),
    holdbackDays: z.number(),
    nextRunAt: timestamp.nullable().describe('When the next run is drafted; null: the operator starts each'),
    blockedBy: payoutBlock.nullable().describe('Why the next run would pay nothing; null: it pays `payableUsd`'),
    takesStripe: z.boolean().describe('Whether payouts through Stripe are possible'),
    details: z
      .object({
        kind: payoutKind,
        to: z.string(),
        confirmed: z.boolean().describe('false: Stripe does not pay out to it yet'),
        changedAt: timestamp,
        usableAt: timestamp.describe('Payouts to it are possible from then on'),
      })
      .nullable()
      .describe('null: not set up'),
    payouts: z.array(payoutRecord).describe(`The newest first, at most ${limits.listedPayouts}`),
  })
  .meta({ id: 'SupplierPayouts' })

const supply = { family: 'v2', tag: 'Supply', access: ['supply'] } as const
const operator = { family: 'v2', tag: 'Operator', access: ['operator'] } as const

export const payoutEndpoints = {
  listPayouts: endpoint({
    ...supply,
    method: 'GET',
    path: '/v2/supply/payouts',
    summary: 'Get payouts, what matures, and where you are paid',
    errors: [400, 401, 403, 404, 500],
    response: supplierPayouts,
  }),
  setPayoutBank: endpoint({
    ...supply,
    method: 'PUT',
    path: '/v2/supply/payouts/bank',
    summary: 'Be paid to a bank account',
    description:
      'An IBAN, or an account number and a routing number in the US. All owners are told by e-mail, and nothing is paid to it for 72 hours. Owners only.',
    errors: [400, 401, 403, 404, 500],
    body: z
      .strictObject({
        holder: z
          .string()
          .max(70)
          .refine((text) => text.trim() !== '', 'Enter the name of the account holder')
          .meta({ title: 'Account holder', description: 'As the bank knows it' }),
        iban: z.string().max(50).optional().meta({ title: 'IBAN' }),
        bic: z.string().max(20).optional().meta({ title: 'BIC', description: 'Needed outside of Europe' }),
        accountNumber: z.string().max(34).optional().meta({ title: 'Account number', description: 'Without an IBAN' }),
        routingNumber: z.string().max(20).optional().meta({ title: 'Routing number', description: 'Nine digits' }),
      })
      .meta({ id: 'SetPayoutBank' }),
    response: supplierPayouts,
    needsRecentSignIn: true,
  }),
  openPayoutPage: endpoint({
    ...supply,
    method: 'POST',
    path: '/v2/supply/payouts/stripe',
    summary: 'Be paid through Stripe',
    description:
      'Answers with a page of Stripe, open for some minutes, on which you enter or change your details. All owners are told by e-mail, and nothing is paid to new details for 72 hours. Owners only.',
    errors: [400, 401, 403, 404, 500],
    body: z
      .strictObject({
        country: z
          .string()
          .regex(/^[A-Z]{2}$/, 'Must be a country code such as DE')
          .optional()
          .meta({ title: 'Country', description: 'Two letters; without it, that of the operator' }),
      })
      .meta({ id: 'OpenPayoutPage' }),
    response: z.object({ url: z.string() }),
    needsRecentSignIn: true,
  }),
  listPayoutRuns: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/payouts',
    summary: 'List payout runs, and suppliers with unpaid earnings',
    description: `Open runs first, then the newest, ${limits.listedPayoutRuns} in all.`,
    errors: [400, 401, 403, 500],
    response: z.object({
      nextRunAt: timestamp.nullable().describe('When the next run is drafted; null: operators start each'),
      alerts: z
        .array(
          z.object({
            subject: z.string().describe('The run, the payout, or the reversal at Stripe'),
            accountId: z.string().nullable(),
            detail: z.string(),
            at: timestamp,
          }),
        )
        .describe('What to look at, the newest first'),
      runs: z.array(runRecord),
      suppliers: z
        .array(
          z.object({
            accountId: z.string(),
            accountName: z.string(),
            unpaidUsd: usdAmount,
            payableUsd: usdAmount,
            kind: payoutKind.nullable(),
            to: z.string().nullable(),
            blockedBy: payoutBlock.nullable().describe('null: the next run pays it'),
          }),
        )
        .describe(`The largest earnings first, at most ${limits.payoutsPerRun}`),
    }),
  }),
  draftPayoutRun: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/payouts',
    summary: 'Draft a payout run of all earnings past the holdback',
    description: 'It moves nothing until it is approved. There is one draft at a time.',
    errors: [400, 401, 403, 404, 500],
    response: runWithPayouts,
  }),
  getPayoutRun: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/payouts/{id}',
    summary: 'Get a payout run with its payouts',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: runWithPayouts,
  }),
  approvePayoutRun: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/payouts/{id}/approve',
    summary: 'Approve a payout run',
    description:
      'Takes the earnings. Transfers through Stripe follow by themselves; for the others, export the bank file. A payout whose details or earnings have changed since the draft is canceled.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: runWithPayouts,
    needsRecentSignIn: true,
  }),
  cancelPayoutRun: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/payouts/{id}/cancel',
    summary: 'Cancel a drafted payout run',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: runWithPayouts,
  }),
  exportPayoutRun: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/payouts/{id}/export',
    summary: 'Export the bank file of an approved payout run, once',
    description:
      'Only the same request with the same `Idempotency-Key` gets the file again: a second file would pay everybody twice.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z
      .strictObject({
        format: z
          .enum(['csv', 'pain.001'])
          .default('csv')
          .meta({ title: 'Format', description: 'pain.001: XML that banks read (pain.001.001.09)' }),
        eurRate: z
          .string()
          .regex(/^(?!0+(\.0+)?$)\d{1,3}(\.\d{1,6})?$/, 'Must be a rate such as "0.92"')
          .optional()
          .meta({ title: 'EUR for one USD', description: 'Without it, the file is in USD' }),
      })
      .meta({ id: 'ExportPayoutRun' }),
    response: z.object({
      fileName: z.string(),
      text: z.string(),
      payoutsTotal: z.int(),
      currency: z.enum(['USD', 'EUR']),
      total: z.string().describe('The sum of the file in its currency'),
    }),
    idempotent: true,
    needsRecentSignIn: true,
  }),
  settlePayoutRun: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/payouts/{id}/settle',
    summary: 'Say what became of the bank transfers of a payout run',
    description:
      '`failed` puts the money into the earnings again, also after `paid`: banks return transfers weeks later. Payouts through Stripe settle themselves.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z
      .strictObject({
        outcome: z.enum(['paid', 'failed']),
        payoutIds: z
          .array(z.string().min(1).max(100))
          .min(1)
          .max(limits.payoutsPerRun)
          .optional()
          .describe('Without it, all that are sent'),
        reason: reasonText,
      })
      .meta({ id: 'SettlePayoutRun' }),
    response: runWithPayouts,
    needsRecentSignIn: true,
  }),
}
