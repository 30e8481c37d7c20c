/** Models by load: the last minutes, and right now. */
import type { Reply } from '../../../src/client/client.ts'
import { money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { modelState, type Model } from '../../../src/view/model.ts'
import { duration } from '../../../src/view/request.ts'
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
  /** undefined: deleted. */
  readonly model: Model | undefined
  /** undefined: no requests. */
  readonly traffic: ModelTraffic | undefined
}

export function TrafficModels({ traffic }: { traffic: Reply<'getTraffic'> | undefined }) {
  const models = useCall('listOperatedModels', {}, { everyMs: EVERY_MS })
  return (
    <Card title="Models" actions={<ButtonLink to="/operator/models">Manage models</ButtonLink>}>
      <Answer of={models} skeleton={<div className="h-40" />}>
        {(reply) => (
          <Table
            label="Load of models"
            columns={columns}
            rows={rowsOf(reply.models, traffic?.models ?? [])}
            rowKey={(row) => row.name}
            empty={
              <Empty title="No models yet" action={<ButtonLink to="/operator/models">Add a model</ButtonLink>}>
                Models and their load appear here.
              </Empty>
            }
          />
        )}
      </Answer>
    </Card>
  )
}

/** Sorted by load; models without requests come last. */
function rowsOf(models: readonly Model[], traffic: readonly ModelTraffic[]): Row[] {
  const offered = new Map(models.map((model) => [model.name, model]))
  const used = new Set(traffic.map((one) => one.model))
  return [
    ...traffic.map((one) => ({ name: one.model, model: offered.get(one.model), traffic: one })),
    ...models.filter(({ name }) => !used.has(name)).map((model) => ({ name: model.name, model, traffic: undefined })),
  ]
}

const columns: ReadonlyArray<Column<Row>> = [
  { name: 'name', header: 'Model', cell: (row) => <span className="font-medium">{row.name}</span> },
  { name: 'state', header: 'State', cell: (row) => <StateBadge model={row.model} /> },
  { name: 'requests', header: 'Requests', align: 'right', cell: (row) => number(row.traffic?.requests ?? 0) },
  { name: 'failed', header: 'Failed', align: 'right', cell: (row) => number(row.traffic?.failed ?? 0) },
  { name: 'busy', header: 'In progress', align: 'right', cell: (row) => loadOf(row.model, (one) => one.inFlight) },
  { name: 'queued', header: 'Queued', align: 'right', cell: (row) => loadOf(row.model, (one) => one.queued) },
  {
    name: 'first',
    header: <abbr title="Time to first byte: median and 95th percentile">First byte p50 / p95</abbr>,
    align: 'right',
    cell: (row) => <Quantiles of={row.traffic?.firstByteMs} />,
  },
  {
    name: 'total',
    header: <abbr title="Total time: median and 95th percentile">Total p50 / p95</abbr>,
    align: 'right',
    cell: (row) => <Quantiles of={row.traffic?.totalMs} />,
  },
  {
    name: 'cost',
    header: 'Revenue',
    align: 'right',
    cell: (row) => (row.traffic === undefined ? '—' : money(row.traffic.costUsd)),
  },
]

function StateBadge({ model }: { model: Model | undefined }) {
  if (model === undefined) return <Badge>deleted</Badge>
  const { label, tone } = modelState(model)
  return <Badge tone={tone}>{label}</Badge>
}

type Health = NonNullable<Model['deployments'][number]['health']>

function loadOf(model: Model | undefined, of: (health: Health) => number | null): string {
  const known = (model?.deployments ?? []).flatMap(({ health }) => (health === null ? [] : (of(health) ?? [])))
  return known.length === 0 ? '—' : number(known.reduce((total, value) => total + value, 0))
}

function Quantiles({ of }: { of: ModelTraffic['totalMs'] | undefined }) {
  if (of === null || of === undefined) return '—'
  return <span className="whitespace-nowrap">{`${duration(of.p50)} / ${duration(of.p95)}`}</span>
}
