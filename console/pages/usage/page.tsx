/** Spend by day, model, key or rental. Range and grouping are in the URL. */
import { getRouteApi } from '@tanstack/react-router'
import type { Reply } from '../../../src/client/client.ts'
import { instantOf } from '../../../src/base/instant.ts'
import { limits } from '../../../src/base/limits.ts'
import { nanoUsdOf, parseUsd, zeroUsd } from '../../../src/base/money.ts'
import { count, number } from '../../../src/view/number.ts'
import { hourlyPrice, money, notChargedYet } from '../../../src/view/money.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { ButtonLink } from '../../ui/button.tsx'
import { Card, Stats } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { useNow } from '../../ui/now.ts'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { UsageDays } from './days.tsx'
import { UsageGroups } from './groups.tsx'
import { RangeBar } from './range-bar.tsx'
import { daysOf, presetsAt, rangeFault, rangeOf, type Range } from './range.ts'

const route = getRouteApi('/shell/usage')

/** Charges raise no event. */
const USAGE_EVERY_MS = 60_000

type Grouping = Reply<'getUsageSummary'>['by']

const groupings: Readonly<Record<Grouping, string>> = {
  day: 'By day',
  model: 'By model',
  key: 'By key',
  rental: 'By rental',
}

export function UsagePage() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const now = instantOf(useNow())
  const range = rangeOf(search, now)
  const fault = rangeFault(range)
  const by = search.by ?? 'day'
  const usage = useCall(
    'getUsageSummary',
    { query: { ...range, by, ...(isSplit(by, range) ? { daily: true } : {}) } },
    { enabled: fault === undefined, everyMs: USAGE_EVERY_MS },
  )
  const setRange = (next: Range): void => void navigate({ search: { ...search, ...next }, replace: true })
  return (
    <Page intro="Charges minus refunds. Days are in UTC.">
      <RangeBar range={range} fault={fault} presets={presetsAt(now)} onChange={setRange} />
      {fault === undefined && (
        <>
          <Totals summary={usage.data} days={daysOf(range).length} />
          <Tabs
            label="Group by"
            tabs={groupings}
            chosen={by}
            onChoose={(next) => void navigate({ search: { ...search, by: next }, replace: true })}
          >
            <Answer of={usage} skeleton={<Skeleton rows={7} />}>
              {(summary) => <Groups summary={summary} range={range} />}
            </Answer>
          </Tabs>
        </>
      )}
    </Page>
  )
}

/** A chart of more days with several groups would be unreadable. */
function isSplit(by: Grouping, range: Range): boolean {
  return by !== 'day' && daysOf(range).length <= limits.usageDailyDays
}

function Totals({ summary, days }: { summary: Reply<'getUsageSummary'> | undefined; days: number }) {
  const balance = useCall('getCustomerBalance')
  const running = useCall('getCosts').data?.month.unbilledUsd
  const total = parseUsd(summary?.totalUsd ?? '') ?? zeroUsd
  const requests = summary?.rows.reduce((sum, row) => sum + row.requests, 0) ?? 0
  return (
    <Stats
      stats={[
        [
          'Charged',
          summary && money(total),
          `In ${count(days, 'day')}${running === undefined ? '' : `; ${notChargedYet(running)}`}`,
        ],
        ['Average per day', summary && money(nanoUsdOf(total / BigInt(days))), 'Over the selected days'],
        ['Inference requests', summary && number(requests), 'Billed, including cancelled ones'],
        ['Current spend', balance.data && hourlyPrice(balance.data.hourlySpendUsd), 'Running machines and volumes'],
      ]}
    />
  )
}

function Groups({ summary, range }: { summary: Reply<'getUsageSummary'>; range: Range }) {
  if (summary.rows.length === 0) {
    return (
      <Empty
        title="No spend on these days"
        action={
          <div className="flex flex-wrap justify-center gap-2">
            <ButtonLink to="/rent" look="primary">
              Rent a machine
            </ButtonLink>
            <ButtonLink to="/chat">Chat with a model</ButtonLink>
          </div>
        }
      >
        Machines, volumes and inference requests appear here within minutes.
      </Empty>
    )
  }
  if (summary.by !== 'day') return <UsageGroups summary={summary} by={summary.by} range={range} />
  return (
    <Card title="Spend by day">
      <UsageDays summary={summary} range={range} />
    </Card>
  )
}
