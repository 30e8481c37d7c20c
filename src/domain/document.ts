/** What is printed on documents. Amounts are added up here, once; a document is never computed again. */
import { formatDay, type Instant } from '../base/instant.ts'
import { formatUsd, nanoUsdOf, type NanoUsd } from '../base/money.ts'
import type { DocumentData, DocumentKind, DocumentParty } from '../contract/document.ts'

/** Each kind has its own sequence of numbers. */
export const documentSeries: Readonly<Record<DocumentKind, string>> = {
  invoice: 'INV',
  credit_note: 'CN',
  self_billing: 'SB',
}

export const documentTitles: Readonly<Record<DocumentKind, string>> = {
  invoice: 'Invoice',
  credit_note: 'Credit note',
  self_billing: 'Self-billing invoice',
}

export interface PostalAddress {
  readonly line1: string
  readonly line2: string | null
  readonly postalCode: string | null
  readonly city: string
  readonly state: string | null
  /** Two capital letters (ISO 3166). */
  readonly country: string
}

const countryNames = new Intl.DisplayNames(['en'], { type: 'region', fallback: 'code' })

function countryName(country: string): string {
  return countryNames.of(country) ?? country
}

export function addressLines({ line1, line2, postalCode, city, state, country }: PostalAddress): string[] {
  const town = [postalCode, city].filter((part) => part !== null).join(' ')
  return [line1, line2, state === null ? town : `${town}, ${state}`, countryName(country)].filter(
    (line) => line !== null,
  )
}

export interface DocumentContent {
  readonly seller: DocumentParty
  readonly buyer: DocumentParty
  /** Those without a text are left out. */
  readonly facts: readonly (readonly [label: string, text: string | null])[]
  readonly lines: readonly (readonly [description: string, amount: NanoUsd])[]
  readonly tax: { readonly label: string; readonly amount: NanoUsd }
  readonly notes: readonly string[]
  readonly footer: string | null
}

export function documentDataOf(content: DocumentContent): DocumentData {
  const subtotal = subtotalOf(content)
  const { seller, buyer, footer, tax } = content
  return {
    seller,
    buyer,
    facts: content.facts.flatMap(([label, text]) => (text === null ? [] : [{ label, text }])),
    lines: content.lines.map(([description, amount]) => ({ description, amountUsd: formatUsd(amount) })),
    subtotalUsd: formatUsd(subtotal),
    tax: { label: tax.label, amountUsd: formatUsd(tax.amount) },
    totalUsd: formatUsd(nanoUsdOf(subtotal + tax.amount)),
    notes: [...content.notes],
    footer,
  }
}

export function subtotalOf({ lines }: Pick<DocumentContent, 'lines'>): NanoUsd {
  return nanoUsdOf(lines.reduce((sum, [, amount]) => sum + amount, 0n))
}

/** A document as it is stored. */
export interface PrintableDocument {
  readonly number: string
  readonly kind: DocumentKind
  readonly issuedAt: Instant
  readonly data: DocumentData
}

/** Writes the file of a document. */
export type DocumentWriter = (document: PrintableDocument) => Promise<Buffer>

const months = 'January February March April May June July August September October November December'.split(' ')

/** `19 November 2026`, in UTC. */
export function printedDay(at: Instant): string {
  const [year = '', month = '', day = ''] = formatDay(at).split('-')
  return `${Number(day)} ${months[Number(month) - 1] ?? ''} ${year}`
}
