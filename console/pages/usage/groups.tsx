/** Spend by model, key or rental, highest first, and by day for up to a month. */
import type { Reply } from '../../../src/client/client.ts'
import { parseUsd, sumUsd, zeroUsd, type NanoUsd } from '../../../src/base/money.ts'
import { money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { moneyColumn, numberColumn, textColumn, type Columns } from '../../list/column.tsx'
import { BarChart, MAX_PARTS, type Bar } from '../../ui/bar-chart.tsx'
import { Card } from '../../ui/card.tsx'
import { Table } from '../../ui/table.tsx'
import { UsageName, useUsageNames } from './name.tsx'
import { daysOf, shortDay, type Range } from './range.ts'

type Summary = Reply<'getUsageSummary'>
type Row = Summary['rows'][number]

/** The number of rows shown; the others are summed up. */
const SHOWN_ROWS = 50

interface UsageGroupsProps {
  readonly summary: Summary
  readonly by: Exclude<Summary['by'], 'day'>
  readonly range: Range
}

const titles = { model: 'Model', key: 'Key', rental: 'Rental' } as const

export function UsageGroups({ summary, by, range }: UsageGroupsProps) {
  const days = daysOf(range)
  const rows = summary.rows.slice(0, SHOWN_ROWS)
  const others = summary.rows.slice(SHOWN_ROWS)
  const columns = columnsOf(by, parseUsd(rows[0]?.costUsd ?? '') ?? zeroUsd)
  return (
    <div className="flex flex-col gap-4">
      {summary.days !== undefined && (
        <Card title={`Daily spend by ${by}`}>
          <SplitDays by={by} days={days} summary={summary} />
        </Card>
      )}
      <Table label={`Spend by ${by}`} columns={columns} rows={rows} rowKey="group" empty={null} />
      {others.length > 0 && (
        <p className="text-sm text-muted">
          {number(others.length)} more, {money(sumUsd(others.map(costOf)))} in total.
        </p>
      )}
    </div>
  )
}

function columnsOf(by: UsageGroupsProps['by'], highest: NanoUsd): Columns<Row> {
  return [
    textColumn(titles[by], (row) => <UsageName by={by} row={row} />),
    textColumn('Share', (row) => <Share of={costOf(row)} highest={highest} />, { wideOnly: true, hideHeader: true }),
    numberColumn('Requests', ({ requests }) => requests || null),
    moneyColumn('Spend', 'costUsd'),
  ]
}

function Share({ of, highest }: { of: NanoUsd; highest: NanoUsd }) {
  const share = highest <= 0n || of <= 0n ? 0 : (Number(of) / Number(highest)) * 100
  return (
    <div aria-hidden="true" className="h-2.5 w-full min-w-40 rounded-xs bg-sunken">
      <div className="h-full min-w-0.5 rounded-xs bg-accent" style={{ width: `${share}%` }} />
    </div>
  )
}

interface SplitDaysProps extends Pick<UsageGroupsProps, 'by' | 'summary'> {
  readonly days: readonly string[]
}

/** Shows the largest groups as separate parts, and all others as one. */
function SplitDays({ by, days, summary }: SplitDaysProps) {
  const nameOf = useUsageNames(by)
  const { rows, days: spent = [] } = summary
  const fits = rows.length <= MAX_PARTS
  const ownRows = rows.slice(0, fits ? MAX_PARTS : MAX_PARTS - 1)
  const names = ownRows.map((row) => row.group)
  const bars = days.map((day): Bar => {
    const parts = spent.filter((one) => one.day === day)
    const values = names.map((group) => sumUsd(parts.filter((one) => one.group === group).map(costOf)))
    const others = sumUsd(parts.filter((one) => !names.includes(one.group)).map(costOf))
    return { key: day, name: shortDay(day), values: fits ? values : [...values, others] }
  })
  return (
    <BarChart
      label={`Daily spend by ${by}`}
      barName="Day"
      parts={[...ownRows.map(nameOf), ...(fits ? [] : ['Others'])]}
      bars={bars}
    />
  )
}

function costOf(row: Pick<Row, 'costUsd'>): NanoUsd {
  return parseUsd(row.costUsd) ?? zeroUsd
}
