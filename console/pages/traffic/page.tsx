/** Live inference traffic and events across all accounts, with a warning for stuck rentals. */
import { useState } from 'react'
import { sumUsd, usd, usdToNumber } from '../../../src/base/money.ts'
import type { Reply } from '../../../src/client/client.ts'
import { number } from '../../../src/view/number.ts'
import { exactMoney, money } from '../../../src/view/money.ts'
import { useOperatorEvents } from '../../api/live-operator.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Card, Stats } from '../../ui/card.tsx'
import { SelectField } from '../../ui/field.tsx'
import { LineChart } from '../../ui/line-chart.tsx'
import { Page } from '../../ui/page.tsx'
import { TrafficEvents } from './events.tsx'
import { TrafficModels } from './models.tsx'
import { StuckWarning } from './stuck.tsx'

const EVERY_MS = 5_000
const spans = [15, 60, 180] as const

export function TrafficPage() {
  const [minutes, setMinutes] = useState<number>(60)
  const traffic = useCall('getTraffic', { query: { minutes } }, { everyMs: EVERY_MS })
  useOperatorEvents()
  const periodField = (
    <SelectField
      label="Period"
      hideLabel
      choices={spans.map((value) => ({ value: String(value), label: `Last ${value} minutes` }))}
      value={String(minutes)}
      onChange={(event) => setMinutes(Number.parseInt(event.target.value, 10))}
    />
  )
  return (
    <Page intro="Live inference traffic and events across all accounts." actions={periodField}>
      <StuckWarning />
      <Answer of={traffic} skeleton={<TrafficSkeleton />}>
        {(reply) => (
          <>
            <Totals traffic={reply} />
            <Charts traffic={reply} />
          </>
        )}
      </Answer>
      <TrafficModels traffic={traffic.data} />
      <TrafficEvents />
    </Page>
  )
}

type Traffic = Reply<'getTraffic'>

/** One skeleton for the whole page, so that loading is announced once. */
function TrafficSkeleton() {
  return (
    <div role="status" aria-label="Loading" className="flex flex-col gap-5">
      <span className="h-[6.9rem] animate-pulse rounded-lg bg-sunken" />
      <span className="grid gap-4 lg:grid-cols-2">
        {[0, 1, 2, 3].map((n) => (
          <span key={n} className="h-72 animate-pulse rounded-lg bg-sunken" />
        ))}
      </span>
    </div>
  )
}

function Totals({ traffic }: { traffic: Traffic }) {
  const { minutes } = traffic
  const requests = sum(minutes.map((minute) => minute.requests))
  const failed = sum(minutes.map((minute) => minute.failed))
  const input = sum(minutes.map((minute) => minute.inputTokens))
  const output = sum(minutes.map((minute) => minute.outputTokens))
  const cost = sumUsd(minutes.map((minute) => usd(minute.costUsd)))
  const inPeriod = `In the last ${minutes.length} minutes`
  return (
    <Stats
      stats={[
        ['Requests', number(requests), inPeriod],
        [
          'Failed',
          number(failed),
          requests === 0 ? 'No requests' : `${((100 * failed) / requests).toFixed(1)}% of requests`,
        ],
        ['Tokens', number(input + output), `${number(input)} in, ${number(output)} out`],
        ['Revenue', money(cost), inPeriod],
      ]}
    />
  )
}

function Charts({ traffic }: { traffic: Traffic }) {
  const { minutes } = traffic
  const times = minutes.map((minute) => Date.parse(minute.at) / 1_000)
  const line = (label: string, of: (minute: Traffic['minutes'][number]) => number) => ({
    label,
    values: minutes.map(of),
  })
  const charts = [
    { title: 'Requests per minute', format: whole, series: [line('Requests', (minute) => minute.requests)] },
    { title: 'Failed requests per minute', format: whole, series: [line('Failed', (minute) => minute.failed)] },
    {
      title: 'Tokens per minute',
      format: whole,
      series: [line('In', (minute) => minute.inputTokens), line('Out', (minute) => minute.outputTokens)],
    },
    {
      title: 'Revenue per minute',
      format: exactMoney,
      series: [line('USD', (minute) => usdToNumber(usd(minute.costUsd)))],
    },
  ]
  return (
    <div className="grid gap-4 lg:grid-cols-2">
      {charts.map(({ title, format, series }) => (
        <Card key={title} title={title}>
          <LineChart label={title} times={times} series={series} format={format} />
        </Card>
      ))}
    </div>
  )
}

/** Hides the fractional labels of a scale. */
function whole(value: number): string {
  return Number.isInteger(value) ? number(value) : ''
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
