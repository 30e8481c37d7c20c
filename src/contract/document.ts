/** Documents: invoices, credit notes and self-billing invoices. What is printed is frozen when one is issued. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { timestamp, usdAmount } from './shared.ts'

export const documentKinds = ['invoice', 'credit_note', 'self_billing'] as const
export type DocumentKind = (typeof documentKinds)[number]

/** Amounts are texts with nine decimals, as everywhere on the wire: a stored document is sent as it is. */
const amountText = z.string()

const documentParty = z
  .object({
    name: z.string(),
    lines: z.array(z.string()).describe('The address, as on an envelope'),
    taxId: z.string().nullable(),
    email: z.string().nullable(),
  })
  .meta({ id: 'DocumentParty' })
export type DocumentParty = z.output<typeof documentParty>

const documentData = z
  .object({
    seller: documentParty,
    buyer: documentParty,
    facts: z
      .array(z.object({ label: z.string(), text: z.string() }))
      .describe('Further facts, such as the purchase order and the document that is corrected'),
    lines: z.array(z.object({ description: z.string(), amountUsd: amountText.describe('Before tax') })),
    subtotalUsd: amountText,
    tax: z.object({ label: z.string().describe('Such as `VAT 19%`'), amountUsd: amountText }),
    totalUsd: amountText,
    notes: z.array(z.string()),
    footer: z.string().nullable(),
  })
  .meta({ id: 'DocumentData' })
export type DocumentData = z.output<typeof documentData>

const documentRow = z.object({
  number: z.string(),
  kind: z.enum(documentKinds).describe('`self_billing`: issued in the name of a supplier'),
  issuedAt: timestamp,
  amountUsd: usdAmount.describe('Before tax'),
  taxUsd: usdAmount,
  totalUsd: usdAmount,
  corrects: z.string().nullable().describe('Number of the document that it takes back, as a whole or in part'),
  subject: z.string().describe('The payment, refund, dispute or payout'),
})

const billing = { family: 'v2', tag: 'Usage and billing' } as const
const number = z.object({
  number: z.string().regex(/^[A-Z]{1,8}-\d{4}-\d{6,9}$/, 'Must be a number such as INV-2026-000001'),
})

export const documentEndpoints = {
  listDocuments: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/billing/documents',
    access: ['billing:read'],
    summary: 'List invoices, credit notes and self-billing invoices, the newest first',
    description: `The newest ${limits.listedDocuments}, or those before a number.`,
    errors: [400, 401, 403, 500],
    query: z.strictObject({
      before: number.shape.number.optional().describe('Only documents that were issued before this one'),
    }),
    response: z.object({ documents: z.array(documentRow.meta({ id: 'Document' })) }),
  }),
  getDocument: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/billing/documents/{number}',
    access: ['billing:read'],
    summary: 'Get a document as data',
    errors: [400, 401, 403, 404, 500],
    params: number,
    response: documentRow.extend({ data: documentData }).meta({ id: 'DocumentWithData' }),
  }),
  getDocumentPdf: endpoint({
    ...billing,
    method: 'GET',
    path: '/v2/billing/documents/{number}/pdf',
    access: ['billing:read'],
    summary: 'Get a document as PDF',
    description: 'PDF/A-3b. The bytes never change.',
    errors: [400, 401, 403, 404, 500],
    params: number,
    response: z.string(),
    answers: 'file',
  }),
}
