/** A supplier's earnings by day and machine, and payouts. Amounts count on the day they were charged. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { parseUsd } from '../../../src/base/money.ts'
import { localDate } from '../../../src/view/time.ts'
import { money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { useCall } from '../../api/query.ts'
import { moneyColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { BarChart } from '../../ui/bar-chart.tsx'
import { ButtonLink } from '../../ui/button.tsx'
import { Card, Section, Stats } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { SelectField } from '../../ui/field.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'
import { Payouts } from './payouts.tsx'

/** Charges raise no events for the supplier, so they are polled. */
const EARNINGS_EVERY_MS = 30_000

const spans = [
  { value: '7', label: 'Last 7 days' },
  { value: '30', label: 'Last 30 days' },
  { value: '90', label: 'Last 90 days' },
] as const

type Earnings = Reply<'getEarnings'>
type Sale = Earnings['byMachine'][number]

export function EarningsPage() {
  const [days, setDays] = useState('30')
  const earnings = useCall(
    'getEarnings',
    { query: { days: Number.parseInt(days, 10) } },
    { everyMs: EARNINGS_EVERY_MS },
  )
  return (
    <Page
      intro="Earnings of your machines after the platform fee. Running rentals are charged every few minutes."
      actions={
        <SelectField
          label="Period"
          hideLabel
          choices={spans}
          value={days}
          onChange={(event) => setDays(event.target.value)}
        />
      }
    >
      <Answer of={earnings} skeleton={<Skeleton rows={8} />}>
        {(value) => (
          <>
            <Sums earnings={value} days={days} />
            {/* Below what has loaded, so that nothing moves it. */}
            <Payouts />
          </>
        )}
      </Answer>
    </Page>
  )
}

function Sums({ earnings, days }: { earnings: Earnings; days: string }) {
  const { byDay, byMachine } = earnings
  const soldHours = byMachine.reduce((sum, sale) => sum + sale.gpuHoursSold, 0)
  const totalHours = byMachine.reduce((sum, sale) => sum + (sale.gpuHours ?? 0), 0)
  return (
    <>
      <Stats
        stats={[
          ['Unpaid', money(earnings.unpaidUsd), 'Paid out by the operator'],
          ['Paid out', money(earnings.paidOutUsd), 'All time'],
          [
            `Earned in ${days} days`,
            money(earnings.earnedUsd),
            `${localDate(earnings.from)} to ${localDate(earnings.to)}`,
          ],
          [
            'Occupancy',
            totalHours === 0 ? '—' : `${number(Math.round((soldHours / totalHours) * 1_000) / 10)}%`,
            `Platform fee: ${number(earnings.platformFeePercentage)}%`,
          ],
        ]}
      />
      {byMachine.length === 0 && parseUsd(earnings.earnedUsd) === 0n ? (
        <Empty
          title="No earnings yet"
          action={
            <ButtonLink to="/supply/join" look="primary">
              Join a machine
            </ButtonLink>
          }
        >
          A machine earns money while a customer rents its GPUs.
        </Empty>
      ) : (
        <>
          <Card title="By day">
            <Days byDay={byDay} />
          </Card>
          <Section title="By machine">
            <Table
              label="Earnings by machine"
              columns={machineColumns(earnings)}
              rows={byMachine}
              rowKey="id"
              empty="No machine was rented in this period."
            />
          </Section>
        </>
      )}
    </>
  )
}

const monthDay = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric', timeZone: 'UTC' })

function Days({ byDay }: { byDay: Earnings['byDay'] }) {
  return (
    <BarChart
      label="Earnings by day"
      barName="Day"
      parts={['Earned']}
      bars={byDay.map(({ day, earnedUsd, gpuHoursSold }) => ({
        key: day,
        name: monthDay.format(Date.parse(day)),
        values: [parseUsd(earnedUsd) ?? 0n],
        detail: `${hours(gpuHoursSold)} GPU-hours`,
      }))}
    />
  )
}

function machineColumns({ machines }: Earnings): Columns<Sale> {
  const allTime = new Map(machines.map((machine) => [machine.id, machine.earnedUsd]))
  return [
    textColumn('Machine', 'id'),
    textColumn('GPU-hours rented', (sale) => hours(sale.gpuHoursSold), { align: 'right' }),
    textColumn('GPU-hours offered', ({ gpuHours }) => (gpuHours === null ? 'no longer yours' : hours(gpuHours)), {
      align: 'right',
      wideOnly: true,
    }),
    textColumn('Occupancy', ({ occupancyPercentage: share }) => (share === null ? null : `${number(share)}%`), {
      align: 'right',
    }),
    moneyColumn('Earned', 'earnedUsd'),
    moneyColumn('All time', (sale) => allTime.get(sale.id) ?? '0'),
  ]
}

function hours(value: number): string {
  return number(Math.round(value * 100) / 100)
}
