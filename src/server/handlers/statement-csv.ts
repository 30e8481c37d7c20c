/** The statement by day as CSV (RFC 4180), with all digits of every amount. */
import { csvRow, textCell } from '../../base/csv.ts'
import { formatUsd } from '../../base/money.ts'
import type { DailyStatement } from '../../app/money/cost.ts'

const columns = [
  'day',
  'kind',
  'description',
  'service',
  'rental_id',
  'volume_id',
  'model',
  'postings',
  'amount_usd',
  'balance_usd',
] as const

export function renderStatementCsv(statement: DailyStatement): string {
  const rows = [
    [...columns],
    [statement.from, 'opening_balance', 'Opening balance', '', '', '', '', '', '', formatUsd(statement.opening)],
    ...statement.lines.map((line) => [
      line.day,
      line.kind,
      textCell(line.description),
      line.service ?? '',
      String(line.rentalId ?? ''),
      String(line.volumeId ?? ''),
      textCell(line.model ?? ''),
      String(line.postings),
      formatUsd(line.amount),
      formatUsd(line.balanceAfter),
    ]),
    [statement.to, 'closing_balance', 'Closing balance', '', '', '', '', '', '', formatUsd(statement.closing)],
  ]
  return rows.map(csvRow).join('')
}
