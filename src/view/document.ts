/** Kinds of documents and states of VAT IDs, for people. */
import type { Reply } from '../client/client.ts'

type Kind = Reply<'listDocuments'>['documents'][number]['kind']
type VatState = Reply<'listVatIds'>['vatIds'][number]['vatState']

export const documentLabels: Readonly<Record<Kind, string>> = {
  invoice: 'Invoice',
  credit_note: 'Credit note',
  self_billing: 'Self-billing invoice',
}

export const vatStateLabels = {
  pending: ['not checked yet', 'warn'],
  verified: ['verified', 'good'],
  unverified: ['not found', 'bad'],
} as const satisfies Record<VatState, readonly [string, string]>
