/** Automatic top-ups and the saved cards that they charge. */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { message, positiveUsd, textIdParams, timestamp, usdAmount } from './shared.ts'

const savedCardRecord = z
  .object({
    id: z.string(),
    brand: z.string(),
    last4: z.string(),
    expMonth: z.number(),
    expYear: z.number(),
    savedAt: timestamp,
  })
  .meta({ id: 'SavedCard' })

export const offReason = z
  .enum(['failures', 'card_removed', 'authentication', 'dispute'])
  .describe(
    '`failures`: three charges failed; `authentication`: the bank asks the customer to confirm; `dispute`: the owner of a card disputed a payment',
  )

const autoTopUpRecord = z
  .object({
    enabled: z.boolean(),
    belowUsd: usdAmount.nullable().describe('Charges when the available balance is below it; null: never set'),
    amountUsd: usdAmount.nullable().describe('The credit of one charge; tax comes on top'),
    monthlyCapUsd: usdAmount.nullable().describe('The most per month (UTC), tax included'),
    card: savedCardRecord.nullable().describe('The card to charge'),
    chargedThisMonthUsd: usdAmount.describe('Automatic charges of this month, tax included'),
    failures: z.number().describe('Failures since the last success; the third turns it off'),
    offReason: offReason.nullable().describe('Why Berth turned it off; null: it is on, or a person turned it off'),
    lastAttemptAt: timestamp.nullable().describe('There is at most one attempt per hour'),
    pausedUntil: timestamp.nullable().describe('The cap is reached until then'),
    consent: z
      .object({ text: z.string(), personId: z.string().nullable(), at: timestamp })
      .nullable()
      .describe('What was agreed to, by whom and when'),
  })
  .meta({ id: 'AutoTopUp' })

const billing = { family: 'v2', tag: 'Usage and billing' } as const

export const autoTopUpEndpoints = {
  getAutoTopUp: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/billing/auto-top-up',
    access: ['billing:read'],
    summary: 'Get the automatic top-up',
    errors: [401, 403, 500],
    response: autoTopUpRecord,
  }),
  setAutoTopUp: endpoint({
    ...billing,
    method: 'PUT',
    path: '/v2/billing/auto-top-up',
    access: ['billing:write'],
    summary: 'Turn the automatic top-up on, or change it',
    description:
      'Charges a saved card whenever the available balance is below the threshold, at most once per hour and never more than the cap per month.',
    errors: [400, 401, 403, 404, 500],
    body: z
      .strictObject({
        belowUsd: positiveUsd.meta({ title: 'When below', description: 'Charges when less is available, in USD' }),
        amountUsd: positiveUsd.meta({
          title: 'Add',
          description: 'Credit of one charge, at least the threshold; tax comes on top',
        }),
        monthlyCapUsd: positiveUsd.meta({ title: 'Monthly cap', description: 'The most per month, tax included' }),
        cardId: z
          .string()
          .optional()
          .describe('The card to charge; default: the one saved last')
          .meta({ title: 'Card' }),
        consent: z.literal(true).describe('The owner of the card agrees to these charges'),
      })
      .meta({ id: 'SetAutoTopUp' }),
    response: autoTopUpRecord,
  }),
  turnOffAutoTopUp: endpoint({
    ...billing,
    method: 'DELETE',
    path: '/v2/billing/auto-top-up',
    access: ['billing:write'],
    summary: 'Turn the automatic top-up off',
    errors: [401, 403, 500],
    response: autoTopUpRecord,
  }),
  listSavedCards: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/billing/cards',
    access: ['billing:read'],
    summary: 'List saved cards, the newest first',
    errors: [401, 403, 500],
    response: z.object({ cards: z.array(savedCardRecord) }),
  }),
  removeSavedCard: endpoint({
    ...billing,
    method: 'DELETE',
    path: '/v2/billing/cards/{id}',
    access: ['billing:write'],
    summary: 'Remove a saved card',
    description: 'The payment processor forgets it too. An automatic top-up that charges it is turned off.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
  openCardPortal: endpoint({
    ...billing,
    method: 'POST',
    path: '/v2/billing/card-portal',
    access: ['billing:write'],
    summary: 'Open the page of the payment processor for cards',
    errors: [400, 401, 403, 500],
    response: z.object({ url: z.string().describe('Valid for a few minutes, for whoever opens it') }),
  }),
}
