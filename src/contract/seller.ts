/** Who sells and who buys: the operator's company and tax rates, and the billing profile of an account. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { reasonText, timestamp } from './shared.ts'

const text = (max: number) => z.string().trim().min(1).max(max)
const country = z.string().regex(/^[A-Z]{2}$/, 'Must be a country code such as DE')

const address = {
  line1: text(200).describe('Street and number'),
  line2: text(200).nullable().default(null),
  postalCode: text(20).nullable().default(null),
  city: text(100),
  state: text(100).nullable().default(null),
  country: country.describe('ISO 3166 code, such as DE'),
}

const addressRecord = {
  line1: z.string(),
  line2: z.string().nullable(),
  postalCode: z.string().nullable(),
  city: z.string(),
  state: z.string().nullable(),
  country: z.string(),
}

export const taxDeciders = ['processor', 'rates'] as const

const taxRate = z
  .object({
    country: z.string(),
    name: z.string(),
    percent: z.string().describe('Such as `19` or `8.875`'),
  })
  .meta({ id: 'TaxRate' })

const sellerRecord = z
  .object({
    name: z.string(),
    ...addressRecord,
    taxId: z.string().nullable(),
    email: z.string().nullable(),
    footer: z.string().nullable(),
    taxBy: z.enum(taxDeciders),
    updatedAt: timestamp,
  })
  .meta({ id: 'Seller' })

const sellerReply = z.object({
  seller: sellerRecord.nullable().describe('null: not set; no documents are issued'),
  taxRates: z.array(taxRate),
})

export const vatStates = ['pending', 'verified', 'unverified'] as const

const vatFields = {
  vatId: z.string().nullable(),
  vatState: z
    .enum(vatStates)
    .nullable()
    .describe('`pending`: nobody has checked yet whether it exists. Only a verified one changes the tax'),
}

const profileRecord = z
  .object({
    name: z.string(),
    ...addressRecord,
    ...vatFields,
    vatCheckedAt: timestamp.nullable(),
    poNumber: z.string().nullable(),
    updatedAt: timestamp,
  })
  .meta({ id: 'BillingProfile' })

const profileReply = z.object({ profile: profileRecord.nullable().describe('null: none was given') })

const billing = { family: 'v2', tag: 'Usage and billing' } as const
const operator = { family: 'v2', tag: 'Operator', access: ['operator'] } as const

export const sellerEndpoints = {
  getBillingProfile: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/billing/profile',
    access: ['billing:read'],
    summary: 'Get whom documents are made out to',
    errors: [401, 403, 500],
    response: profileReply,
  }),
  setBillingProfile: endpoint({
    ...billing,
    method: 'PUT',
    path: '/v2/billing/profile',
    access: ['billing:write'],
    summary: 'Set whom documents are made out to',
    description:
      'It counts for later payments and documents only. A VAT ID changes the tax once it is verified; another one has to be verified anew.',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        name: text(200).meta({ title: 'Company or name' }),
        ...address,
        vatId: z
          .string()
          .trim()
          .min(1)
          .max(30)
          .nullable()
          .default(null)
          .describe('With its country, such as DE136695976'),
        poNumber: text(100).nullable().default(null).describe('Your order number, printed on each document'),
      })
      .meta({ id: 'SetBillingProfile' }),
    response: profileReply,
  }),
  getSeller: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/seller',
    summary: 'Get who sells, and the tax rates',
    errors: [401, 403, 500],
    response: sellerReply,
  }),
  setSeller: endpoint({
    ...operator,
    method: 'PUT',
    path: '/v2/operator/seller',
    summary: 'Set who sells',
    description: 'From then on, each payment by card gets an invoice. Documents that were issued before do not change.',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        name: text(200).meta({ title: 'Company' }),
        ...address,
        taxId: text(50).nullable().default(null).describe('As it is printed, such as DE136695976'),
        email: z.email().max(254).nullable().default(null).describe('For questions about documents'),
        footer: text(500).nullable().default(null).describe('At the foot of each page, such as the company register'),
        taxBy: z
          .enum(taxDeciders)
          .default('processor')
          .describe('Who decides about tax: Stripe Tax (`processor`), or your own rates by country (`rates`)'),
      })
      .meta({ id: 'SetSeller' }),
    response: sellerReply,
    needsRecentSignIn: true,
  }),
  setTaxRate: endpoint({
    ...operator,
    method: 'PUT',
    path: '/v2/operator/tax-rates',
    summary: 'Set the tax on sales to a country',
    description: 'It counts for later payments only, if `taxBy` of the seller is `rates`.',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        country: country.describe('ISO 3166 code, such as DE'),
        name: text(40).describe('As it is printed, such as VAT'),
        percent: z
          .string()
          .regex(
            /^(?!0+(\.0+)?$)(\d{1,2}(\.\d{1,3})?|100(\.0{1,3})?)$/,
            'Must be a percentage such as "19" or "8.875"',
          ),
      })
      .meta({ id: 'SetTaxRate' }),
    response: taxRate,
    needsRecentSignIn: true,
  }),
  deleteTaxRate: endpoint({
    ...operator,
    method: 'DELETE',
    path: '/v2/operator/tax-rates/{country}',
    summary: 'Stop taxing sales to a country',
    errors: [400, 401, 403, 404, 500],
    params: z.object({ country }),
    response: taxRate,
    needsRecentSignIn: true,
  }),
  listVatIds: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/vat-ids',
    summary: 'List VAT IDs of accounts, those to check first',
    description: `The newest ${limits.listedVatIds}.`,
    errors: [401, 403, 500],
    response: z.object({
      vatIds: z.array(
        z.object({
          accountId: z.string(),
          name: z.string(),
          country: z.string(),
          vatId: z.string(),
          vatState: z.enum(vatStates),
          checkedBy: z.string().nullable().describe('`processor`, or the key of an operator'),
          vatCheckedAt: timestamp.nullable(),
        }),
      ),
    }),
  }),
  checkVatId: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/accounts/{id}/vat-id',
    summary: 'Record whether a VAT ID exists',
    description: 'It counts for later payments only.',
    errors: [400, 401, 403, 404, 500],
    params: z.object({ id: z.string().min(1).max(100) }),
    body: z
      .strictObject({
        vatId: z
          .string()
          .min(4)
          .max(20)
          .describe('The ID that was checked: refused if the account has another one now'),
        isVerified: z.boolean().default(true),
        reason: reasonText,
      })
      .meta({ id: 'CheckVatId' }),
    response: z.object({ accountId: z.string(), ...vatFields }),
    needsRecentSignIn: true,
  }),
}
