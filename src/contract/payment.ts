/** Payments by card. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { positiveUsd, reasonText, signedUsd, textIdParams, timestamp, usdAmount } from './shared.ts'

export const paymentState = z
  .enum(['open', 'paid', 'failed', 'expired', 'mismatch'])
  .describe('`mismatch`: what was paid differs from what was asked for; an operator looks into it')

export const paymentRecord = z
  .object({
    id: z.string(),
    kind: z.enum(['checkout', 'automatic']).describe('`automatic`: an automatic top-up'),
    state: paymentState,
    amountUsd: usdAmount.describe('The credit'),
    taxUsd: usdAmount.nullable().describe('Tax on top of it; null until it is paid'),
    url: z.string().nullable().describe('The page to pay on; null: not ready yet, or no longer open'),
    failure: z.string().nullable().describe('Why it failed'),
    refundedUsd: usdAmount.describe('Credit that went back to the card, or is on its way'),
    disputedUsd: usdAmount.describe('Credit that the owner of the card took back through the bank'),
    createdAt: timestamp,
    expiresAt: timestamp.describe('Until when the page is open'),
    paidAt: timestamp.nullable(),
  })
  .meta({ id: 'Payment' })

export const alertKinds = ['foreign', 'mismatch', 'dispute', 'fraud_warning', 'difference', 'payout'] as const

export const refundRecord = z
  .object({
    id: z.string(),
    paymentId: z.string(),
    state: z.enum(['open', 'sent', 'succeeded', 'failed']).describe('`failed`: the money is in the balance again'),
    amountUsd: usdAmount,
    taxUsd: usdAmount.describe('Tax that goes back with it'),
    reason: z.string(),
    createdAt: timestamp,
  })
  .meta({ id: 'PaymentRefund' })

export const objectKinds = ['charge', 'refund', 'dispute', 'transfer', 'other'] as const

const comparisonRecord = z
  .object({
    day: z.iso.date().describe('UTC'),
    comparedAt: timestamp,
    until: timestamp.describe('Later changes are left for the next comparison'),
    objects: z.int().describe('Charges, refunds, disputes and transfers that either side has'),
    processorUsd: signedUsd.describe('What they moved by the ledger of the payment processor, before its fees'),
    recordedUsd: signedUsd.describe('The same by the records of Berth'),
    feesUsd: signedUsd.describe('All fees of the payment processor so far'),
    differencesTotal: z.int(),
    differences: z
      .array(
        z.object({
          subject: z.string().describe('The object of the payment processor, or of Berth if it is unknown there'),
          kind: z.enum(objectKinds),
          processorUsd: signedUsd.nullable().describe('null: nothing there, or in another currency'),
          recordedUsd: signedUsd.nullable().describe('null: not known here'),
        }),
      )
      .describe(`The largest first, at most ${limits.paymentDifferences}`),
  })
  .meta({ id: 'PaymentComparison' })

const billing = { family: 'v2', tag: 'Usage and billing' } as const
const operator = { family: 'v2', tag: 'Operator' } as const

export const paymentEndpoints = {
  createTopUp: endpoint({
    ...billing,
    method: 'POST',
    path: '/v2/billing/top-ups',
    access: ['billing:write'],
    summary: 'Add money by card',
    description:
      'Answers with a page of the payment processor to pay on; tax comes on top there. The money arrives within seconds of the payment.',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        amountUsd: positiveUsd.meta({ title: 'Amount', description: 'Credit to buy, in USD; whole cents' }),
        saveCard: z.boolean().default(false).describe('Keep the card for automatic top-ups'),
      })
      .meta({ id: 'CreateTopUp' }),
    response: paymentRecord,
    idempotent: true,
  }),
  listTopUps: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/billing/top-ups',
    access: ['billing:read'],
    summary: 'List payments by card, the newest first',
    description: `The newest ${limits.listedPayments}.`,
    errors: [401, 403, 500],
    response: z.object({
      takesCards: z.boolean().describe('Whether this server takes payments by card'),
      payments: z.array(paymentRecord),
    }),
  }),
  getTopUp: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/billing/top-ups/{id}',
    access: ['billing:read'],
    summary: 'Get a payment by card',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: paymentRecord,
  }),
  listPayments: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/payments',
    access: ['operator'],
    summary: 'List payments by card, and what to look at',
    description: `The newest ${limits.listedPayments} payments and alerts, and the last comparison with the payment processor.`,
    errors: [400, 401, 403, 500],
    response: z.object({
      comparison: comparisonRecord.nullable().describe('null: none yet'),
      alerts: z.array(
        z.object({
          kind: z.enum(alertKinds),
          subject: z.string().describe('The payment, or the object of the payment processor'),
          accountId: z.string().nullable(),
          detail: z.string(),
          at: timestamp,
        }),
      ),
      payments: z.array(paymentRecord.extend({ accountId: z.string() }).meta({ id: 'AccountPayment' })),
    }),
  }),
  comparePayments: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/payments/reconcile',
    access: ['operator'],
    summary: 'Compare payments with the ledger of the payment processor',
    description:
      'Reads its balance transactions, books its fees, and lists what differs. It also runs once a day, and notifies operators of differences.',
    errors: [400, 401, 403, 500],
    response: comparisonRecord,
  }),
  refundPayment: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/payments/{id}/refund',
    access: ['operator'],
    summary: 'Refund a payment to its card',
    description:
      'At most what is left of the payment and unspent in the account. The tax of that part goes back with it. If the card refuses it, the money is in the balance again.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z
      .strictObject({
        amountUsd: positiveUsd.meta({ title: 'Amount', description: 'Credit to take back, in USD; whole cents' }),
        reason: reasonText,
      })
      .meta({ id: 'RefundPayment' }),
    response: refundRecord,
    idempotent: true,
    needsRecentSignIn: true,
  }),
}
