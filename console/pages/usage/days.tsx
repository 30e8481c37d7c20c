/** Spend per day, or per week for long ranges. */
import type { Reply } from '../../../src/client/client.ts'
import { parseUsd, sumUsd, zeroUsd } from '../../../src/base/money.ts'
import { count } from '../../../src/view/number.ts'
import { BarChart, type Bar } from '../../ui/bar-chart.tsx'
import { daysOf, shortDay, type Range } from './range.ts'

/** More bars cannot be told apart. */
const MAX_BARS = 100
const WEEK = 7

export function UsageDays({ summary, range }: { summary: Reply<'getUsageSummary'>; range: Range }) {
  const byDay = new Map(summary.rows.map((row) => [row.group, row]))
  const days = daysOf(range)
  const isByWeek = days.length > MAX_BARS
  const bars = piecesOf(days, isByWeek ? WEEK : 1).map((piece): Bar => {
    const [first = ''] = piece
    const rows = piece.flatMap((day) => byDay.get(day) ?? [])
    const cost = sumUsd(rows.map((row) => parseUsd(row.costUsd) ?? zeroUsd))
    const requests = rows.reduce((sum, row) => sum + row.requests, 0)
    return { key: first, name: shortDay(first), values: [cost], detail: count(requests, 'request') }
  })
  return (
    <BarChart
      label={isByWeek ? 'Spend by week' : 'Spend by day'}
      barName={isByWeek ? 'Week of' : 'Day'}
      parts={['Spend']}
      bars={bars}
    />
  )
}

function piecesOf(days: readonly string[], size: number): string[][] {
  return Array.from({ length: Math.ceil(days.length / size) }, (_, n) => days.slice(n * size, (n + 1) * size))
}
