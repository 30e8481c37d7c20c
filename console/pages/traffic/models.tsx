/** Models by load, in the last minutes and right now. */
import type { Reply } from '../../../src/client/client.ts'
import { modelState, type Model } from '../../../src/view/model.ts'
import { duration } from '../../../src/view/request.ts'
import { badgeColumn, moneyColumn, numberColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { ButtonLink } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import type { Column } from '../../ui/table.tsx'

const EVERY_MS = 3_000

type ModelTraffic = Reply<'getTraffic'>['models'][number]

interface Row {
  readonly name: string
  /** undefined: the model was deleted. */
  readonly model: Model | undefined
  /** undefined: the model had no requests. */
  readonly traffic: ModelTraffic | undefined
}

export function TrafficModels({ traffic }: { traffic: Reply<'getTraffic'> | undefined }) {
  return (
    <Card title="Models" actions={<ButtonLink to="/operator/models">Manage models</ButtonLink>}>
      <ListTable
        label="Load of models"
        call="listOperatedModels"
        everyMs={EVERY_MS}
        rows={({ models }) => rowsOf(models, traffic?.models ?? [])}
        rowKey="name"
        columns={columns}
        skeleton={<div className="h-40" />}
        empty={
          <Empty title="No models yet" action={<ButtonLink to="/operator/models">Add a model</ButtonLink>}>
            Models and their load appear here.
          </Empty>
        }
      />
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

const columns: Columns<Row> = [
  textColumn('Model', 'name', { className: 'font-medium' }),
  badgeColumn('State', ({ model }) => (model === undefined ? { label: 'deleted' } : stateOf(model))),
  numberColumn('Requests', ({ traffic }) => traffic?.requests ?? 0),
  numberColumn('Failed', ({ traffic }) => traffic?.failed ?? 0),
  numberColumn('In progress', ({ model }) => loadOf(model, (health) => health.inFlight)),
  numberColumn('Queued', ({ model }) => loadOf(model, (health) => health.queued)),
  quantilesColumn('First byte p50 / p95', 'Time to first byte', ({ traffic }) => traffic?.firstByteMs),
  quantilesColumn('Total p50 / p95', 'Total time', ({ traffic }) => traffic?.totalMs),
  moneyColumn('Revenue', ({ traffic }) => traffic?.costUsd ?? null),
]

function stateOf(model: Model) {
  const { label, tone } = modelState(model)
  return { label, tone }
}

function quantilesColumn(
  header: string,
  meaning: string,
  of: (row: Row) => ModelTraffic['totalMs'] | undefined,
): Column<Row> {
  const text = (row: Row): string | null => {
    const quantiles = of(row) ?? null
    return quantiles === null ? null : `${duration(quantiles.p50)} / ${duration(quantiles.p95)}`
  }
  return {
    ...textColumn(header, text, { align: 'right', className: 'whitespace-nowrap' }),
    header: <abbr title={`${meaning}: median and 95th percentile`}>{header}</abbr>,
  }
}

type Health = NonNullable<Model['deployments'][number]['health']>

function loadOf(model: Model | undefined, of: (health: Health) => number | null): number | null {
  const values = (model?.deployments ?? []).flatMap(({ health }) => (health === null ? [] : (of(health) ?? [])))
  return values.length === 0 ? null : values.reduce((total, value) => total + value, 0)
}
