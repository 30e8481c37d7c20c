/** `berth supply earnings`: what one's machines have earned, by day or machine, and what was paid out. */
import { Option, type Command } from 'commander'
import { limits } from '../base/limits.ts'
import { parseUsd } from '../base/money.ts'
import type { Reply } from '../client/client.ts'
import { count } from '../view/number.ts'
import { money } from '../view/money.ts'
import { fields, table, type Cell, type Screen } from './screen.ts'
import type { Run } from './session.ts'
import { parseWhole } from './supply.ts'

const DAYS = 30
/** Longer times show only the days on which something was sold. */
const WHOLE_DAYS = 31

type Earnings = Reply<'getEarnings'>

interface EarningsOptions {
  readonly by: 'day' | 'machine'
  readonly days: number
}

/** Under `berth supply`. */
export function addEarningsCommand(supply: Command, run: Run): void {
  const command = supply
    .command('earnings')
    .description('what they have earned, and what was paid out')
    .addOption(new Option('--by <what>', 'what is summed').choices(['day', 'machine']).default('day'))
    .option('--days <n>', 'how many days, with today', parseWhole(1, limits.earningsDays), DAYS)
  command.action(
    run('operator', async ({ client, screen }) => {
      const { by, days } = command.opts<EarningsOptions>()
      const earnings = await client.call('getEarnings', { query: { days } })
      screen.show(earnings, () => [
        ...sumLines(screen, earnings),
        '',
        ...(by === 'day' ? dayLines(screen, earnings) : machineLines(screen, earnings)),
      ])
    }),
  )
}

function sumLines(screen: Screen, earnings: Earnings): string[] {
  const { byMachine, from, to } = earnings
  const sold = byMachine.reduce((sum, sale) => sum + sale.gpuHoursSold, 0)
  const there = byMachine.reduce((sum, sale) => sum + (sale.gpuHours ?? 0), 0)
  return fields(screen, [
    ['Not paid out', `${money(earnings.unpaidUsd)}, which the operator pays out`],
    ['Paid out', `${money(earnings.paidOutUsd)} in all`],
    ['Earned', `${money(earnings.earnedUsd)} from ${from} to ${to} (UTC)`],
    ['Occupancy', there === 0 ? undefined : `${percent((sold / there) * 100)} of the GPU hours of these days`],
    ['Fee', `${percent(earnings.platformFeePercentage)} is the operator's, and taken off already`],
  ])
}

function dayLines(screen: Screen, { byDay }: Earnings): string[] {
  const rows = byDay.length <= WHOLE_DAYS ? byDay : byDay.filter(isDayOfSales)
  if (!byDay.some(isDayOfSales)) return nothingEarned
  return table(
    screen,
    [{ title: 'DAY' }, { title: 'GPU HOURS', right: true }, { title: 'EARNED', right: true }],
    rows.map((row) => [row.day, hours(row.gpuHoursSold), money(row.earnedUsd)]),
  )
}

function isDayOfSales({ earnedUsd, gpuHoursSold }: Earnings['byDay'][number]): boolean {
  return gpuHoursSold > 0 || parseUsd(earnedUsd) !== 0n
}

const nothingEarned = [
  'Nothing was earned in these days.',
  'A machine earns while a customer rents its GPUs. Yours: berth supply machines',
]

function machineLines(screen: Screen, { byMachine, machines }: Earnings): string[] {
  if (byMachine.length === 0) return nothingEarned
  const inAll = new Map(machines.map(({ id, earnedUsd }) => [id, earnedUsd]))
  return [
    ...table(
      screen,
      machineColumns,
      byMachine.map((sale): Cell[] => [
        sale.id,
        hours(sale.gpuHoursSold),
        sale.gpuHours === null ? 'not yours' : hours(sale.gpuHours),
        sale.occupancyPercentage === null ? '' : percent(sale.occupancyPercentage),
        money(sale.earnedUsd),
        money(inAll.get(sale.id) ?? '0'),
      ]),
    ),
    '',
    `${count(byMachine.length, 'machine')}; SOLD and THERE are GPU hours, IN ALL is since it joined.`,
  ]
}

const machineColumns = [
  { title: 'MACHINE', shrink: true },
  { title: 'SOLD', right: true },
  { title: 'THERE', right: true },
  { title: 'OCCUPIED', right: true },
  { title: 'EARNED', right: true },
  { title: 'IN ALL', right: true },
] as const

/** What is less than an hour would be rounded to nothing. */
function hours(value: number): string {
  return value.toLocaleString('en-US', value < 1 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 2 })
}

function percent(value: number): string {
  return `${value.toLocaleString('en-US', { maximumFractionDigits: 2 })} %`
}
