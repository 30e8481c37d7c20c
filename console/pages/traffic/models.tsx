/** Models by how busy they are: what the last minutes have seen, and what they are doing right now. */
import type { Reply } from '../../../src/client/client.ts'
import { money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { modelState, type Model } from '../../../src/view/model.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { ButtonLink } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Table, type Column } from '../../ui/table.tsx'

const EVERY_MS = 3_000

type ModelTraffic = Reply<'getTraffic'>['models'][number]

interface Row {
  readonly name: string
  /** undefined: it is no longer offered. */
  readonly model: Model | undefined
  /** undefined: nobody has called it. */
  readonly traffic: ModelTraffic | undefined
}

export function TrafficModels({ traffic }: { traffic: Reply<'getTraffic'> | undefined }) {
  const models = useCall('listOperatedModels', {}, { everyMs: EVERY_MS })
  return (
    <Card title="Models" actions={<ButtonLink to="/operator/models">Look after models</ButtonLink>}>
      <Answer of={models} skeleton={<div className="h-40" />}>
        {(reply) => (
          <Table
            label="Load of models"
            columns={columns}
            rows={rowsOf(reply.models, traffic?.models ?? [])}
            rowKey={(row) => row.name}
            empty={
              <Empty
                title="No model is offered yet"
                action={<ButtonLink to="/operator/models">Add a model</ButtonLink>}
              >
                What customers call stands here with its load.
              </Empty>
            }
          />
        )}
      </Answer>
    </Card>
  )
}

/** The busiest first, as the server has them; then those that nobody has called. */
function rowsOf(models: readonly Model[], traffic: readonly ModelTraffic[]): Row[] {
  const offered = new Map(models.map((model) => [model.name, model]))
  const called = new Set(traffic.map((one) => one.model))
  return [
    ...traffic.map((one) => ({ name: one.model, model: offered.get(one.model), traffic: one })),
    ...models.filter(({ name }) => !called.has(name)).map((model) => ({ name: model.name, model, traffic: undefined })),
  ]
}

const columns: ReadonlyArray<Column<Row>> = [
  { name: 'name', header: 'Model', cell: (row) => <span className="font-medium">{row.name}</span> },
  { name: 'state', header: 'State', cell: (row) => <StateBadge model={row.model} /> },
  { name: 'requests', header: 'Requests', align: 'right', cell: (row) => number(row.traffic?.requests ?? 0) },
  { name: 'failed', header: 'Failed', align: 'right', cell: (row) => number(row.traffic?.failed ?? 0) },
  { name: 'busy', header: 'In flight', align: 'right', cell: (row) => loadOf(row.model, (one) => one.inFlight) },
  { name: 'queued', header: 'Waiting', align: 'right', cell: (row) => loadOf(row.model, (one) => one.queued) },
  {
    name: 'first',
    header: <abbr title="Time to the first byte: half, and 95 of 100, are faster">First byte p50 / p95</abbr>,
    align: 'right',
    cell: (row) => quantiles(row.traffic?.firstByteMs),
  },
  {
    name: 'total',
    header: <abbr title="Time to the end: half, and 95 of 100, are faster">Whole p50 / p95</abbr>,
    align: 'right',
    cell: (row) => quantiles(row.traffic?.totalMs),
  },
  {
    name: 'cost',
    header: 'Earned',
    align: 'right',
    cell: (row) => (row.traffic === undefined ? '—' : money(row.traffic.costUsd)),
  },
]

function StateBadge({ model }: { model: Model | undefined }) {
  if (model === undefined) return <Badge>not offered</Badge>
  const { label, tone } = modelState(model)
  return <Badge tone={tone}>{label}</Badge>
}

type Health = NonNullable<Model['deployments'][number]['health']>

function loadOf(model: Model | undefined, of: (health: Health) => number | null): string {
  const told = (model?.deployments ?? []).flatMap(({ health }) => (health === null ? [] : (of(health) ?? [])))
  return told.length === 0 ? '—' : number(told.reduce((total, value) => total + value, 0))
}

function quantiles(value: ModelTraffic['totalMs'] | undefined): string {
  return value === null || value === undefined ? '—' : `${milliseconds(value.p50)} / ${milliseconds(value.p95)}`
}

function milliseconds(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`
}
