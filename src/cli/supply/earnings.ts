/** `berth supply earnings`: by day or machine, and what was paid out. */
import { parseUsd } from '../../base/money.ts'
import type { Reply } from '../../client/client.ts'
import { money } from '../../view/money.ts'
import { count } from '../../view/number.ts'
import { tableOf } from '../kit/record.ts'
import { show } from '../kit/row.ts'
import type { Content } from '../kit/screen.ts'

type Earnings = Reply<'getEarnings'>

/** Longer periods show only the days with sales. */
const MAX_EMPTY_DAYS = 31

export const earningsRow = show<'getEarnings', { by: 'day' | 'machine' }>(
  'supply earnings',
  'getEarnings',
  'show earnings by day or machine, and payouts',
  {
    flags: { days: 'number of days, including today' },
    options: { '--by <group>': { help: 'group by', choices: ['day', 'machine'], default: 'day' } },
    facts: [
      {
        Unpaid: ({ unpaidUsd }) => `${money(unpaidUsd)}; the operator pays it out`,
        'Paid out': ({ paidOutUsd }) => `${money(paidOutUsd)} in total`,
        Earned: ({ earnedUsd, from, to }) => `${money(earnedUsd)} from ${from} to ${to} (UTC)`,
        Occupancy: occupancyOf,
        'Platform fee': ({ platformFeePercentage }) => `${percent(platformFeePercentage)}, already deducted`,
      },
    ],
    content: (earnings, { options }) => [
      '',
      ...(options.by === 'day' ? describeDays(earnings) : describeMachines(earnings)),
    ],
    examples: ['berth supply earnings --days 7', 'berth supply earnings --by machine'],
  },
)

function occupancyOf({ byMachine }: Earnings): string | undefined {
  const sold = byMachine.reduce((sum, sale) => sum + sale.gpuHoursSold, 0)
  const offered = byMachine.reduce((sum, sale) => sum + (sale.gpuHours ?? 0), 0)
  return offered === 0 ? undefined : `${percent((sold / offered) * 100)} of the GPU-hours in that time`
}

const NOTHING_EARNED = [
  'Nothing was earned in this time.',
  'A machine earns while a customer rents its GPUs. Yours: berth supply machines ls',
]

function describeDays({ byDay }: Earnings): Content[] {
  const withSales = byDay.filter((day) => day.gpuHoursSold > 0 || parseUsd(day.earnedUsd) !== 0n)
  if (withSales.length === 0) return NOTHING_EARNED
  const days = byDay.length <= MAX_EMPTY_DAYS ? byDay : withSales
  return [tableOf(days, ['day', { 'GPU-HOURS': (row) => hours(row.gpuHoursSold) }, 'earnedUsd'])]
}

function describeMachines({ byMachine, machines }: Earnings): Content[] {
  if (byMachine.length === 0) return NOTHING_EARNED
  const totals = new Map(machines.map(({ id, earnedUsd }) => [id, earnedUsd]))
  return [
    tableOf(byMachine, [
      'id:MACHINE',
      {
        'HOURS SOLD': (sale) => hours(sale.gpuHoursSold),
        OF: (sale) => (sale.gpuHours === null ? 'not yours' : hours(sale.gpuHours)),
        OCCUPANCY: (sale) => (sale.occupancyPercentage === null ? '' : percent(sale.occupancyPercentage)),
      },
      'earnedUsd',
      { TOTAL: (sale) => money(totals.get(sale.id) ?? '0') },
    ]),
    '',
    `${count(byMachine.length, 'machine')}. Hours are GPU-hours. TOTAL is since the machine joined.`,
  ]
}

/** Less than an hour would be rounded to nothing. */
function hours(value: number): string {
  return value.toLocaleString('en-US', value < 1 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 2 })
}

function percent(value: number): string {
  return `${value.toLocaleString('en-US', { maximumFractionDigits: 2 })}%`
}
