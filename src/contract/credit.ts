/** Credit that is given: trials, vouchers, and cards that are saved without a payment. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { message, positiveUsd, textIdParams, time, timestamp, usdAmount } from './shared.ts'

const grantKinds = ['trial', 'voucher', 'operator'] as const

export const creditRecord = z
  .object({
    id: z.string(),
    kind: z.enum(grantKinds).describe('`operator`: a gift of the operator'),
    amountUsd: usdAmount,
    unspentUsd: usdAmount.describe('Credits are spent before paid money, the first to expire first'),
    expiredUsd: usdAmount.describe('Taken back after it expired'),
    grantedAt: timestamp,
    expiresAt: timestamp.nullable().describe('null: never. What is on hold then is taken back when it is released'),
  })
  .meta({ id: 'Credit' })

export const cardSetupRecord = z
  .object({
    id: z.string(),
    state: z.enum(['open', 'done', 'failed', 'expired']),
    url: z.string().nullable().describe('The page to enter the card on; null: not ready yet, or no longer open'),
    failure: z.string().nullable().describe('Why it failed'),
    createdAt: timestamp,
    expiresAt: timestamp.describe('Until when the page is open'),
  })
  .meta({ id: 'CardSetup' })

const voucherRecord = z
  .object({
    id: z.string(),
    codeEnd: z.string().describe('The last characters of the code, which is shown only once'),
    amountUsd: usdAmount.describe('The credit of one use'),
    uses: z.int().describe('How often it can be used'),
    usesPerAccount: z.int(),
    used: z.int(),
    redeemableUntil: timestamp.nullable().describe('null: no end'),
    creditDays: z.int().nullable().describe('Days after which its credit expires; null: never'),
    note: z.string(),
    createdAt: timestamp,
    revokedAt: timestamp.nullable(),
  })
  .meta({ id: 'Voucher' })

const trialStates = ['available', 'given'] as const

const billing = { family: 'v2', tag: 'Usage and billing' } as const
const operator = { family: 'v2', tag: 'Operator', access: ['operator'] } as const
const creditDays = z.int().min(1).max(limits.creditDays)

export const creditEndpoints = {
  listCredits: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/billing/credits',
    access: ['billing:read'],
    summary: 'List credits: trials, vouchers and gifts, the newest first',
    description: `The newest ${limits.listedCredits}.`,
    errors: [401, 403, 500],
    response: z.object({
      unspentUsd: usdAmount.describe('What is left of all of them; refunds to a card leave it out'),
      trial: z
        .object({
          amountUsd: usdAmount,
          days: z.int().describe('Days after which it expires'),
          state: z.enum(trialStates).describe('`available`: comes with the first card that you save or pay with'),
        })
        .nullable()
        .describe('null: this server gives none'),
      credits: z.array(creditRecord),
    }),
  }),
  redeemVoucher: endpoint({
    ...billing,
    method: 'POST',
    path: '/v2/billing/vouchers/redeem',
    access: ['billing:write'],
    summary: 'Redeem a voucher',
    description: `An account can try ${limits.voucherTriesPerHour} wrong codes per hour.`,
    errors: [400, 401, 403, 404, 500],
    body: z
      .strictObject({
        code: z
          .string()
          .min(1)
          .max(limits.voucherCodeChars)
          .meta({ title: 'Voucher code', description: 'Such as 7K3M-9QXA-V2TD-8HNC; case and hyphens do not matter' }),
      })
      .meta({ id: 'RedeemVoucher' }),
    response: creditRecord,
    idempotent: true,
  }),
  createCardSetup: endpoint({
    ...billing,
    method: 'POST',
    path: '/v2/billing/card-setups',
    access: ['billing:write'],
    summary: 'Save a card without a payment',
    description: 'Answers with a page of the payment processor to enter the card on.',
    errors: [400, 401, 403, 500],
    response: cardSetupRecord,
    idempotent: true,
  }),
  getCardSetup: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/billing/card-setups/{id}',
    access: ['billing:read'],
    summary: 'Get the state of a card that is being saved',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: cardSetupRecord,
  }),
  listVouchers: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/vouchers',
    summary: 'List vouchers, the newest first',
    description: `The newest ${limits.listedVouchers}.`,
    errors: [401, 403, 500],
    response: z.object({ vouchers: z.array(voucherRecord) }),
  }),
  createVoucher: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/vouchers',
    summary: 'Create a voucher',
    description: 'Whoever has its code can redeem it: a link to the console is `/billing?voucher=CODE`.',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        amountUsd: positiveUsd.meta({ title: 'Amount', description: 'Credit of one use, in USD' }),
        uses: z
          .int()
          .min(1)
          .max(limits.voucherUses)
          .default(1)
          .describe('How often it can be used')
          .meta({ title: 'Uses' }),
        usesPerAccount: z
          .int()
          .min(1)
          .max(limits.voucherUses)
          .default(1)
          .describe('How often one account can use it')
          .meta({ title: 'Uses per account' }),
        redeemableUntil: time
          .optional()
          .describe('When it can no longer be redeemed')
          .meta({ title: 'Redeemable until' }),
        creditDays: creditDays
          .optional()
          .describe('Days after which its credit expires; default: never')
          .meta({ title: 'Credit lasts (days)' }),
        note: z
          .string()
          .trim()
          .max(limits.nameChars)
          .default('')
          .describe('What it is for; customers do not see it')
          .meta({ title: 'Note' }),
      })
      .meta({ id: 'CreateVoucher' }),
    response: z.object({
      voucher: voucherRecord,
      code: z.string().describe('Shown once'),
    }),
    idempotent: true,
  }),
  revokeVoucher: endpoint({
    ...operator,
    method: 'DELETE',
    path: '/v2/operator/vouchers/{id}',
    summary: 'Revoke a voucher; credit that was redeemed stays',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
}
