/** The statement of a month: what was charged to a prepaid balance, and what was paid into it. No payment is due. */
import { addMs, parseInstant, startOfNextMonth, type Instant } from '../../base/instant.ts'
import { formatUsdExactly, formatUsdForPeople, nanoUsdOf, type NanoUsd } from '../../base/money.ts'
import type { DocumentParty } from '../../contract/document.ts'
import { printedDay } from '../../domain/document.ts'
import type { PrintedDocument } from './printed-document.ts'

interface StatementLine {
  readonly description: string
  readonly quantity: string
  readonly unitPriceUsd: NanoUsd | null
  readonly amountUsd: NanoUsd
}

export interface PrintableStatement {
  readonly number: string
  /** `2026-11` */
  readonly month: string
  readonly status: 'open' | 'final'
  readonly issuedAt: Instant
  readonly openingBalanceUsd: NanoUsd
  readonly lines: readonly StatementLine[]
  readonly chargesUsd: NanoUsd
  readonly payments: readonly StatementLine[]
  readonly paymentsUsd: NanoUsd
  readonly closingBalanceUsd: NanoUsd
}

export function printedStatement(
  statement: PrintableStatement,
  seller: DocumentParty,
  buyer: DocumentParty,
  footer: string | null,
): PrintedDocument {
  const isOpen = statement.status === 'open'
  const { openingBalanceUsd, paymentsUsd, chargesUsd, closingBalanceUsd } = statement
  return {
    title: 'Statement',
    number: statement.number,
    issuedAt: statement.issuedAt,
    parties: [
      ['From', seller],
      ['Account', buyer],
    ],
    facts: [
      ['Number', statement.number],
      ['Period', periodOf(statement.month)],
      [isOpen ? 'As of' : 'Date', printedDay(statement.issuedAt)],
      ['Currency', 'US dollars (USD)'],
    ],
    tables: [
      {
        title: 'Charges',
        columns: [
          { label: 'Description', width: null, isNumber: false },
          { label: 'Quantity', width: 92, isNumber: true },
          { label: 'Unit price', width: 66, isNumber: true },
          { label: 'Amount', width: 72, isNumber: true },
        ],
        rows: statement.lines.map(({ description, quantity, unitPriceUsd, amountUsd }) => [
          description,
          quantity,
          unitPriceUsd === null ? '–' : formatUsdExactly(unitPriceUsd),
          formatUsdForPeople(amountUsd),
        ]),
      },
      {
        title: 'Payments and credits',
        columns: [
          { label: 'Description', width: null, isNumber: false },
          { label: 'Date', width: 92, isNumber: true },
          { label: 'Amount', width: 72, isNumber: true },
        ],
        rows: statement.payments.map(({ description, quantity, amountUsd }) => [
          description,
          quantity,
          formatUsdForPeople(amountUsd),
        ]),
      },
    ],
    totals: [
      ['Opening balance', formatUsdForPeople(openingBalanceUsd)],
      ['Payments and credits', formatUsdForPeople(paymentsUsd)],
      ['Charges', formatUsdForPeople(nanoUsdOf(0n - chargesUsd))],
      [isOpen ? 'Balance so far (USD)' : 'Closing balance (USD)', formatUsdForPeople(closingBalanceUsd)],
    ],
    notes: [
      'This is no invoice, and no payment is due: the charges were deducted from a prepaid balance. Each payment by card has its own invoice.',
      'Times are UTC. Usage is metered by the millisecond and charged to the nano-dollar; amounts are rounded here.',
    ],
    footer,
  }
}

function periodOf(month: string): string {
  const first = parseInstant(`${month}-01T00:00:00Z`)
  return first === undefined ? month : `1 to ${printedDay(addMs(startOfNextMonth(first), -1))}`
}
