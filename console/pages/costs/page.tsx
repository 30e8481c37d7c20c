/** Costs by day, stacked by kind, resource, label, key or member, and a forecast of the month. */
import { getRouteApi } from '@tanstack/react-router'
import type { Reply } from '../../../src/client/client.ts'
import { instantOf } from '../../../src/base/instant.ts'
import { limits } from '../../../src/base/limits.ts'
import { parseUsd, sumUsd, zeroUsd, type NanoUsd } from '../../../src/base/money.ts'
import { chargedAndRunning, hourlyPrice, money } from '../../../src/view/money.ts'
import { count } from '../../../src/view/number.ts'
import { useCall } from '../../api/query.ts'
import { moneyColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { BarChart, MAX_PARTS, type Bar } from '../../ui/bar-chart.tsx'
import { ButtonLink, TextLink } from '../../ui/button.tsx'
import { Card, Stats } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { useNow } from '../../ui/now.ts'
import { Page } from '../../ui/page.tsx'
import { Skeleton, SkeletonText } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { RangeBar } from '../usage/range-bar.tsx'
import { daysOf, presetsAt, rangeFault, rangeOf, shortDay, type Range } from '../usage/range.ts'

const route = getRouteApi('/shell/costs')

/** Charges raise no event. */
const COSTS_EVERY_MS = 60_000

type Costs = Reply<'getCosts'>
type Group = Costs['groups'][number]

const groupings = {
  kind: 'By kind',
  resource: 'By resource',
  label: 'By label',
  key: 'By key',
  member: 'By member',
} as const satisfies Record<Costs['groupBy'], string>

const kindNames = { machines: 'Machines', storage: 'Storage', models: 'Models', other: 'Other' } as const

export function CostsPage() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const now = instantOf(useNow())
  const range = rangeOf(search, now)
  const fault = rangeFault(range)
  const groupBy = search.by ?? 'kind'
  const costs = useCall(
    'getCosts',
    { query: { ...range, groupBy, limit: limits.costGroups } },
    { enabled: fault === undefined, everyMs: COSTS_EVERY_MS, keepsLast: true },
  )
  const setRange = (next: Range): void => void navigate({ search: { ...search, ...next }, replace: true })
  return (
    <Page intro="Charges minus refunds, exactly as in the ledger. Days are in UTC.">
      <RangeBar range={range} fault={fault} presets={presetsAt(now)} onChange={setRange} />
      {fault === undefined && (
        <>
          <Totals costs={costs.data} days={daysOf(range).length} />
          <Tabs
            label="Group by"
            tabs={groupings}
            chosen={groupBy}
            onChoose={(by) => void navigate({ search: { ...search, by }, replace: true })}
          >
            <Answer of={costs} skeleton={<Skeleton rows={7} />}>
              {(value) => <Groups costs={value} />}
            </Answer>
          </Tabs>
        </>
      )}
    </Page>
  )
}

function Totals({ costs, days }: { costs: Costs | undefined; days: number }) {
  const loading = <SkeletonText />
  const month = costs?.month
  return (
    <Stats
      stats={[
        ['Charged', costs && money(costs.totalUsd), `In ${count(days, 'day')}`],
        ['This month so far', month && money(month.spentUsd), month === undefined ? loading : chargedAndRunning(month)],
        ['Forecast for the month', month && money(month.forecastUsd), 'Current spend until its end, average inference'],
        ['Current spend', month && hourlyPrice(month.hourlySpendUsd), 'Running machines and volumes'],
      ]}
    />
  )
}

function Groups({ costs }: { costs: Costs }) {
  if (costs.groups.length === 0) {
    return (
      <Empty title="No costs on these days" action={<ButtonLink to="/rent">Rent a machine</ButtonLink>}>
        Machines, volumes and inference appear here within minutes.
      </Empty>
    )
  }
  return (
    <div className="flex flex-col gap-4">
      <Card title={`Daily costs by ${costs.groupBy}`}>
        <Days costs={costs} />
      </Card>
      <Table
        label={`Costs by ${costs.groupBy}`}
        columns={columns(costs.groupBy)}
        rows={costs.groups}
        rowKey="id"
        empty={null}
      />
    </div>
  )
}

const kindColumn = textColumn<Group>('Kind', ({ kind }) => (kind === null ? 'Several' : kindNames[kind]), {
  wideOnly: true,
})

const columns = (by: Costs['groupBy']): Columns<Group> => [
  textColumn('Name', (group) => <GroupName group={group} />),
  ...(by === 'kind' ? [] : [kindColumn]),
  moneyColumn('Cost', 'costUsd'),
]

function GroupName({ group }: { group: Group }) {
  const [, rentalId] = /^rental:(\d+)$/.exec(group.id) ?? []
  if (rentalId === undefined) return <span className="break-all">{nameOf(group)}</span>
  return (
    <TextLink to="/rentals/$id" params={{ id: rentalId }}>
      {group.name}
    </TextLink>
  )
}

function nameOf({ id, name }: Group): string {
  return id in kindNames ? kindNames[id as keyof typeof kindNames] : name
}

/** Shows the largest groups as separate parts, and all others as one. */
function Days({ costs }: { costs: Costs }) {
  const fits = costs.groups.length <= MAX_PARTS
  const shownCount = fits ? costs.groups.length : MAX_PARTS - 1
  const bars = costs.days.map(({ day, costsUsd }): Bar => {
    const values = costsUsd.map(amountOf)
    return {
      key: day,
      name: shortDay(day),
      values: fits ? values : [...values.slice(0, shownCount), sumUsd(values.slice(shownCount))],
    }
  })
  const names = costs.groups.slice(0, shownCount).map(nameOf)
  return (
    <BarChart
      label={`Daily costs by ${costs.groupBy}`}
      barName="Day"
      parts={[...names, ...(fits ? [] : ['Others'])]}
      bars={bars}
    />
  )
}

/** A day with more refunds than charges is shown with no height. */
function amountOf(usd: string): NanoUsd {
  const amount = parseUsd(usd) ?? zeroUsd
  return amount < 0n ? zeroUsd : amount
}
