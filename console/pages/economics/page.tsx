/** Revenue, GPU cost and margin of models for everyone, and the price advisor. */
import { getRouteApi } from '@tanstack/react-router'
import { useDeferredValue, useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { instantOf } from '../../../src/base/instant.ts'
import {
  adviceText,
  costText,
  marginText,
  outstandingText,
  percent,
  rate,
  span,
  unitNoun,
} from '../../../src/view/economics.ts'
import { money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { useCall } from '../../api/query.ts'
import { optionalNumber } from '../../form/read.ts'
import { moneyColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { ButtonLink, TextLink } from '../../ui/button.tsx'
import { Card, Facts, Stats } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { SelectField } from '../../ui/field.tsx'
import { useNow } from '../../ui/now.ts'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { SliderField } from '../../ui/slider-field.tsx'
import { Table } from '../../ui/table.tsx'
import { RangeBar } from '../usage/range-bar.tsx'
import { presetsAt, rangeFault, rangeOf, type Range } from '../usage/range.ts'

type Economics = Reply<'getEconomics'>
type Model = Economics['models'][number]

const route = getRouteApi('/shell/operator/economics')

/** Charges raise no event. */
const EVERY_MS = 60_000

export function EconomicsPage() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const now = instantOf(useNow())
  const range = rangeOf(search, now)
  const fault = rangeFault(range)
  const economics = useCall(
    'getEconomics',
    { query: range },
    { enabled: fault === undefined, everyMs: EVERY_MS, keepsLast: true },
  )
  const setRange = (next: Range): void => void navigate({ search: { ...search, ...next }, replace: true })
  return (
    <Page intro="Models for everyone on rented GPUs. Amounts are sums of the ledger; days are in UTC.">
      <RangeBar range={range} fault={fault} presets={presetsAt(now)} onChange={setRange} />
      {fault === undefined && (
        <>
          <Totals economics={economics.data} />
          <Answer of={economics} skeleton={<Skeleton rows={5} />}>
            {({ models }) => (models.length === 0 ? <NoModels /> : <Models models={models} range={range} />)}
          </Answer>
        </>
      )}
    </Page>
  )
}

function NoModels() {
  return (
    <Empty title="No replicas on these days" action={<ButtonLink to="/deployments/new">Deploy a model</ButtonLink>}>
      Models that you serve to everyone on rented GPUs appear here.
    </Empty>
  )
}

function Totals({ economics }: { economics: Economics | undefined }) {
  return (
    <Stats
      stats={[
        ['Revenue', economics && money(economics.revenueUsd), 'From requests'],
        ['GPU cost', economics && money(economics.gpuCostUsd), 'Rentals and bills of other clouds'],
        ['Margin', economics && money(economics.marginUsd), 'Revenue less GPU cost'],
        ['Models', economics && number(economics.models.length), 'With a replica in this period'],
      ]}
    />
  )
}

const columns: Columns<Model> = [
  textColumn('Model', ({ model, deploymentId }) =>
    deploymentId === null ? (
      <span className="inline-block min-w-28 break-all">{model}</span>
    ) : (
      <TextLink to="/deployments/$id" params={{ id: deploymentId }}>
        <span className="inline-block min-w-28 break-all">{model}</span>
      </TextLink>
    ),
  ),
  moneyColumn('Revenue', 'revenueUsd'),
  moneyColumn('GPU cost', 'gpuCostUsd'),
  textColumn(
    'Margin',
    (one) => <Badge tone={one.marginUsd.startsWith('-') ? 'bad' : 'good'}>{marginText(one)}</Badge>,
    { align: 'right' },
  ),
  textColumn('Utilization', ({ utilizationPercent }) => percent(utilizationPercent), { align: 'right' }),
  textColumn('Units per second', ({ unitsPerSecond }) => rate(unitsPerSecond), { align: 'right', wideOnly: true }),
  textColumn('Units per dollar', ({ unitsPerUsd }) => rate(unitsPerUsd), { align: 'right', wideOnly: true }),
]

function Models({ models, range }: { models: readonly Model[]; range: Range }) {
  const [name, setName] = useState<string>()
  const chosen = models.find(({ model }) => model === name) ?? models[0]
  return (
    <>
      <Table label="Models" columns={columns} rows={models} rowKey="model" empty={null} />
      {chosen !== undefined && (
        <div className="grid items-start gap-4 lg:grid-cols-2">
          <Card title="Replicas of the model">
            <div className="flex flex-col gap-4">
              <SelectField
                label="Model"
                choices={models.map(({ model }) => ({ value: model, label: model }))}
                value={chosen.model}
                onChange={(event) => setName(event.target.value)}
              />
              <ModelFacts one={chosen} />
            </div>
          </Card>
          <Advisor key={chosen.model} one={chosen} range={range} />
        </div>
      )}
    </>
  )
}

function ModelFacts({ one }: { one: Model }) {
  const noun = unitNoun(one.kind)
  return (
    <Facts
      facts={[
        ['Requests', number(one.requests)],
        ['Input', `${number(one.inputUnits)} ${noun}s, ${number(one.cachedUnits)} of them cached`],
        ['Output', `${number(one.outputUnits)} ${noun}s`],
        ['GPU time', `${span(one.paidSeconds)} paid, ${span(one.busySeconds)} busy`],
        ['Outstanding', `${outstandingText(one)} requests per replica`],
        ['Throughput', `${rate(one.unitsPerSecond)} ${noun}s per second and replica while busy`],
        ['GPU cost', costText(one)],
      ]}
    />
  )
}

/** Shows which price covers the cost at another utilization. */
function Advisor({ one, range }: { one: Model; range: Range }) {
  const [typed, setTyped] = useState('')
  const chosen = useDeferredValue(optionalNumber(typed))
  const isRight = chosen === undefined || (chosen >= 1 && chosen <= 100)
  const utilizationPercent = isRight ? chosen : undefined
  const economics = useCall(
    'getEconomics',
    { query: { ...range, model: one.model, utilizationPercent } },
    { enabled: utilizationPercent !== undefined, keepsLast: true },
  )
  const current = utilizationPercent === undefined ? one : (economics.data?.models[0] ?? one)
  if (one.advice === null) return null
  const measured = Math.max(1, Math.round(one.utilizationPercent ?? 1))
  const error = isRight ? undefined : 'Must be a number from 1 to 100'
  return (
    <Card title="Price advisor">
      <div className="flex flex-col gap-4">
        {one.advice.isMeasured && (
          <SliderField
            label="Utilization (%)"
            min={1}
            max={100}
            step={1}
            value={typed}
            placeholder={String(measured)}
            hint="Leave empty for the measured one."
            error={error}
            onChange={(event) => setTyped(event.target.value)}
          />
        )}
        <ul aria-live="polite" className="flex flex-col gap-1.5 text-sm">
          {adviceText(current.advice ?? one.advice, one).map((sentence) => (
            <li key={sentence}>{sentence}</li>
          ))}
        </ul>
        <p className="text-sm text-muted">
          Advice assumes the mix of requests and the throughput that were measured while replicas were busy. More
          requests at a time usually raise throughput.
        </p>
      </div>
    </Card>
  )
}
