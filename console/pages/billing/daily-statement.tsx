/** The statement of a month: one line per day and resource, with a CSV download. */
import type { Reply } from '../../../src/client/client.ts'
import { addMs, formatInstant, instantOf, parseInstant, startOfNextMonth } from '../../../src/base/instant.ts'
import { routes } from '../../../src/contract/routes.ts'
import { entryLabels } from '../../../src/view/ledger.ts'
import { money, notChargedYet } from '../../../src/view/money.ts'
import { useCall } from '../../api/query.ts'
import { badgeColumn, moneyColumn, textColumn, type Columns } from '../../list/column.tsx'
import { PagedTable } from '../../list/table.tsx'
import { TextLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { TextField } from '../../ui/field.tsx'
import { useNow } from '../../ui/now.ts'
import { Amount } from './statement.tsx'

type Line = Reply<'getDailyStatement'>['lines'][number]

const PAGE_LINES = 100
const MONTH_CHARS = '2026-11'.length
const DAY_CHARS = '2026-11-14'.length

const columns: Columns<Line> = [
  textColumn('Day', 'day', { className: 'whitespace-nowrap' }),
  badgeColumn('Kind', ({ kind }) => entryLabels[kind], { wideOnly: true }),
  textColumn('Description', (line) => <Description line={line} />),
  textColumn('Amount', ({ amountUsd }) => <Amount usd={amountUsd} />, { align: 'right' }),
  moneyColumn('Balance after', 'balanceAfterUsd', { wideOnly: true }),
]

function Balances({ statement }: { statement: Reply<'getDailyStatement'> }) {
  const running = useCall('getCosts').data?.month.unbilledUsd
  const { openingBalanceUsd, closingBalanceUsd } = statement
  return (
    <p className="text-sm text-muted">
      Charged: opening balance {money(openingBalanceUsd)}, closing balance {money(closingBalanceUsd)}.
      {running !== undefined && ` Now: ${notChargedYet(running)}.`}
    </p>
  )
}

function balancesOf(statement: Reply<'getDailyStatement'>) {
  return <Balances statement={statement} />
}

interface DailyStatementProps {
  /** undefined: the current month. */
  readonly month: string | undefined
  readonly onMonth: (month: string | undefined) => void
}

export function DailyStatement({ month, onMonth }: DailyStatementProps) {
  const today = formatInstant(instantOf(useNow())).slice(0, DAY_CHARS)
  const current = today.slice(0, MONTH_CHARS)
  const range = rangeOf(month ?? current, today)
  const download = `${routes.exportStatement.path}?${new URLSearchParams(range).toString()}`
  return (
    <div className="flex flex-col gap-4">
      <div className="flex flex-wrap items-end justify-between gap-3">
        <TextField
          label="Month"
          type="month"
          value={month ?? current}
          max={current}
          onChange={(event) => onMonth(event.target.value === current ? undefined : event.target.value)}
        />
        <a
          href={download}
          download={`statement-${month ?? current}.csv`}
          className="inline-flex min-h-9 items-center rounded-md border border-line-strong bg-surface px-3 py-1.5 text-sm font-medium hover:bg-sunken"
        >
          Download CSV
        </a>
      </div>
      <PagedTable
        label="Statement"
        call="getDailyStatement"
        query={range}
        pageRows={PAGE_LINES}
        rows={({ lines }) => lines}
        rowKey={({ day, kind, service, rentalId, volumeId, model }) =>
          [day, kind, service, rentalId, volumeId, model].join(' ')
        }
        columns={columns}
        above={balancesOf}
        empty={
          <Empty title="No transactions this month">
            Payments and charges for machines, volumes and models appear here.
          </Empty>
        }
      />
    </div>
  )
}

/** The range from the first day of a month to its last, or to today. */
function rangeOf(month: string, today: string): { from: string; to: string } {
  const from = `${month}-01`
  const first = parseInstant(from)
  const last = first === undefined ? today : formatInstant(addMs(startOfNextMonth(first), -1)).slice(0, DAY_CHARS)
  return { from, to: last < today ? last : today }
}

function Description({ line }: { line: Line }) {
  const { rentalId, description } = line
  if (rentalId === null) return <span className="min-w-48">{description}</span>
  return (
    <TextLink to="/rentals/$id" params={{ id: String(rentalId) }}>
      {description}
    </TextLink>
  )
}
