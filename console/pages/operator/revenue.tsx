/** Revenue per day: machines, models and storage. */
import type { UseQueryResult } from '@tanstack/react-query'
import { nanoUsdOf, sumUsd, usd } from '../../../src/base/money.ts'
import type { Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { money } from '../../../src/view/money.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { BarChart } from '../../ui/bar-chart.tsx'
import { TextLink } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'

type Revenue = Reply<'getRevenue'>

const EVERY_MS = 60_000
const parts = ['Machines', 'Models', 'Storage'] as const

export function useRevenue(): UseQueryResult<Revenue, ClientError> {
  return useCall('getRevenue', { query: {} }, { everyMs: EVERY_MS })
}

export function RevenueCard() {
  const revenue = useRevenue()
  return (
    <Card
      title="Revenue per day, 30 days"
      actions={<TextLink to="/operator/economics">Economics</TextLink>}
      className="xl:col-span-2"
    >
      <div className="min-h-72">
        <Answer of={revenue} skeleton={<div className="h-72" role="status" aria-label="Loading" />}>
          {({ days }) => (
            <>
              <p className="text-sm text-muted tabular-nums">{money(totalOf(days))} in 30 days</p>
              <BarChart label="Revenue per day" barName="Day" parts={parts} bars={days.map(barOf)} />
            </>
          )}
        </Answer>
      </div>
    </Card>
  )
}

const dayName = new Intl.DateTimeFormat('en-US', { month: 'short', day: 'numeric', timeZone: 'UTC' })

function barOf({ day, machinesUsd, modelsUsd, storageUsd }: Revenue['days'][number]) {
  const values = [machinesUsd, modelsUsd, storageUsd].map((amount) => usd(amount))
  // A day with more refunds than charges has no bar.
  return { key: day, name: dayName.format(Date.parse(day)), values: values.map((value) => (value < 0n ? 0n : value)) }
}

function totalOf(days: Revenue['days']) {
  return nanoUsdOf(
    sumUsd(days.flatMap(({ machinesUsd, modelsUsd, storageUsd }) => [machinesUsd, modelsUsd, storageUsd].map(usd))),
  )
}
