/** What is drawn on the pages of a document: texts only, in the order of the page. */
import type { Instant } from '../../base/instant.ts'
import { formatUsdForPeople, usd } from '../../base/money.ts'
import type { DocumentParty } from '../../contract/document.ts'
import { documentTitles, printedDay, type PrintableDocument } from '../../domain/document.ts'

export interface PrintedDocument {
  readonly title: string
  /** Beside the title, such as the number. */
  readonly number: string
  readonly issuedAt: Instant
  /** The first one also stands at the head. */
  readonly parties: readonly (readonly [label: string, party: DocumentParty])[]
  readonly facts: readonly (readonly [label: string, text: string])[]
  readonly tables: readonly PrintedTable[]
  /** The last one stands out. */
  readonly totals: readonly (readonly [label: string, amount: string])[]
  readonly notes: readonly string[]
  /** null: nothing. */
  readonly footer: string | null
}

export interface PrintedTable {
  /** null: the document has one table, which needs no title. */
  readonly title: string | null
  readonly columns: readonly PrintedColumn[]
  readonly rows: readonly (readonly string[])[]
}

export interface PrintedColumn {
  readonly label: string
  /** In points. null: what the others leave. */
  readonly width: number | null
  /** Numbers end at the right edge of their column. */
  readonly isNumber: boolean
}

const AMOUNT_WIDTH = 100

export function printedDocument({ number, kind, issuedAt, data }: PrintableDocument): PrintedDocument {
  const { seller, buyer, facts, lines, subtotalUsd, tax, totalUsd, notes, footer } = data
  return {
    title: documentTitles[kind],
    number,
    issuedAt,
    parties: [
      [kind === 'self_billing' ? 'Supplier' : 'From', seller],
      [kind === 'self_billing' ? 'Customer, who issues this invoice' : 'Billed to', buyer],
    ],
    facts: [
      ['Number', number],
      ['Date', printedDay(issuedAt)],
      ...facts.map(({ label, text }) => [label, text] as const),
      ['Currency', 'US dollars (USD)'],
    ],
    tables: [
      {
        title: null,
        columns: [
          { label: 'Description', width: null, isNumber: false },
          { label: 'Amount (USD)', width: AMOUNT_WIDTH, isNumber: true },
        ],
        rows: lines.map(({ description, amountUsd }) => [description, money(amountUsd)]),
      },
    ],
    totals: [
      ['Subtotal', money(subtotalUsd)],
      [tax.label, money(tax.amountUsd)],
      [kind === 'credit_note' ? 'Total credited (USD)' : 'Total (USD)', money(totalUsd)],
    ],
    notes,
    footer,
  }
}

function money(text: string): string {
  return formatUsdForPeople(usd(text))
}
