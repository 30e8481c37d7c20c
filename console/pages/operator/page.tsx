/** The first page of operators: money, health and traffic of the whole installation, and what needs attention. */
import type { Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { sumUsd, usd } from '../../../src/base/money.ts'
import { modelState } from '../../../src/view/model.ts'
import { hourlyPrice, money } from '../../../src/view/money.ts'
import { count, number } from '../../../src/view/number.ts'
import { useOperatorEvents } from '../../api/live-operator.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { ButtonLink, TextLink } from '../../ui/button.tsx'
import { Card, Facts, Stat } from '../../ui/card.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { LineChart } from '../../ui/line-chart.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton, SkeletonText } from '../../ui/skeleton.tsx'
import { GpuBars } from '../fleet/band.tsx'
import { StuckWarning } from '../traffic/stuck.tsx'
import { Alerts, useUnread } from './alerts.tsx'
import { RevenueCard, useRevenue } from './revenue.tsx'

const EVERY_MS = 10_000
const MINUTES = 60

type Summary = Reply<'getOperatorSummary'>

export function OperatorPage() {
  const summary = useCall('getOperatorSummary', undefined, { everyMs: EVERY_MS })
  const models = useCall('listOperatedModels', undefined, { everyMs: EVERY_MS })
  const revenue = useRevenue()
  const unread = useUnread()
  useOperatorEvents()
  // All of it appears at once, so that nothing moves down when more needs attention.
  const isPending = [summary, models, revenue, unread].some((one) => one.isPending)
  return (
    <Page
      intro="What needs you, what it earns, and what runs."
      actions={
        <>
          <ButtonLink to="/operator/accounts">Accounts</ButtonLink>
          <ButtonLink to="/operator/fleet">Fleet</ButtonLink>
        </>
      }
    >
      {isPending ? <Skeleton rows={16} /> : <Home summary={summary.data} error={summary.error} />}
    </Page>
  )
}

function Home({ summary, error }: { summary: Summary | undefined; error: ClientError | null }) {
  return (
    <>
      <StuckWarning />
      <Alerts />
      {error !== null && <ErrorNotice error={error} isRead />}
      <Numbers summary={summary} />
      <div className="grid grid-cols-1 items-stretch gap-4 xl:grid-cols-3">
        <RevenueCard />
        <Gpus summary={summary} />
      </div>
      <div className="grid grid-cols-1 items-stretch gap-4 xl:grid-cols-3">
        <Traffic />
        <Models />
      </div>
      <div className="grid grid-cols-1 items-stretch gap-4 lg:grid-cols-2">
        <Rentals rentals={summary?.rentals} />
        <Hosts summary={summary} />
      </div>
    </>
  )
}

/** The five numbers that an operator looks at every day. */
function Numbers({ summary }: { summary: Summary | undefined }) {
  const revenue = useRevenue().data
  const sums = summary?.money
  const gpus = summary?.gpus
  const textOf = (text: string | undefined) => text ?? <SkeletonText />
  return (
    <dl className="grid grid-cols-2 gap-3 md:grid-cols-3 xl:grid-cols-5">
      <Stat
        label="Revenue today"
        value={textOf(sums && money(sums.chargedTodayUsd))}
        detail={sums === undefined ? ' ' : `${money(sums.chargedThisMonthUsd)} this month`}
      />
      <Stat
        label="Run rate"
        value={textOf(revenue && hourlyPrice(revenue.runRatePerHourUsd))}
        detail="of what runs now"
      />
      <Stat
        label="GPUs rented"
        value={textOf(gpus && `${number(gpus.rented)} of ${number(gpus.total)}`)}
        detail={gpus === undefined || gpus.total === 0 ? ' ' : `${Math.round((100 * gpus.rented) / gpus.total)} %`}
      />
      <Stat
        label="Paying accounts"
        value={textOf(revenue && number(revenue.payingAccounts))}
        detail={sums === undefined ? ' ' : `${money(sums.balancesUsd)} in balances`}
      />
      <Stat
        label="Owed to suppliers"
        value={textOf(sums && money(sums.unpaidEarningsUsd))}
        detail={sums === undefined ? ' ' : `${money(sums.paidInTodayUsd)} received today`}
      />
    </dl>
  )
}

function Gpus({ summary }: { summary: Summary | undefined }) {
  return (
    <Card title="GPUs rented" actions={<TextLink to="/operator/fleet">Fleet</TextLink>}>
      <div className="min-h-56">
        {summary !== undefined &&
          (summary.gpuModels.length === 0 ? (
            <p className="text-sm text-muted">No machines yet.</p>
          ) : (
            <GpuBars gpuModels={summary.gpuModels} />
          ))}
      </div>
    </Card>
  )
}

function Traffic() {
  const traffic = useCall('getTraffic', { query: { minutes: MINUTES } }, { everyMs: EVERY_MS }).data
  const minutes = traffic?.minutes ?? []
  const requests = minutes.reduce((sum, minute) => sum + minute.requests, 0)
  const failed = minutes.reduce((sum, minute) => sum + minute.failed, 0)
  const revenue = sumUsd(minutes.map((minute) => usd(minute.costUsd)))
  return (
    <Card
      title="Inference, last hour"
      actions={<TextLink to="/operator/traffic">Traffic</TextLink>}
      className="xl:col-span-2"
    >
      <p className="mb-2 min-h-5 text-sm text-muted tabular-nums">
        {traffic !== undefined &&
          `${count(requests, 'request')}, ${number(failed)} failed, ${money(revenue)}; ${count(traffic.models.length, 'model')} used`}
      </p>
      <div className="min-h-56">
        {traffic !== undefined && (
          <LineChart
            label="Requests per minute"
            times={minutes.map((minute) => Date.parse(minute.at) / 1_000)}
            series={[
              { label: 'Requests', values: minutes.map((minute) => minute.requests) },
              { label: 'Failed', values: minutes.map((minute) => minute.failed) },
            ]}
            format={(value) => (Number.isInteger(value) ? number(value) : '')}
          />
        )}
      </div>
    </Card>
  )
}

function Rentals({ rentals }: { rentals: Summary['rentals'] | undefined }) {
  const countOf = (of: keyof Summary['rentals'], tone: 'good' | 'warn' | 'bad' | 'info') =>
    rentals === undefined ? (
      <SkeletonText className="w-8" />
    ) : (
      <Badge tone={rentals[of] === 0 ? 'plain' : tone}>{number(rentals[of])}</Badge>
    )
  return (
    <Card
      title="Rentals"
      actions={
        <TextLink to="/operator/fleet" search={{ tab: 'rentals' }}>
          All rentals
        </TextLink>
      }
    >
      <Facts
        facts={[
          ['Running', countOf('running', 'good')],
          ['Starting', countOf('starting', 'info')],
          ['Unreachable', countOf('unreachable', 'warn')],
          ['Failed', countOf('failed', 'bad')],
          ['Stuck', countOf('stuck', 'bad')],
        ]}
      />
    </Card>
  )
}

function Hosts({ summary }: { summary: Summary | undefined }) {
  const { hosts, gpus, pendingDeliveries } = summary ?? {}
  const numberOf = (value: number | undefined, isBad: boolean) =>
    value === undefined ? (
      <SkeletonText className="w-8" />
    ) : (
      <Badge tone={isBad && value > 0 ? 'bad' : 'plain'}>{number(value)}</Badge>
    )
  return (
    <Card
      title="Hosts"
      actions={
        <TextLink to="/operator/fleet" search={{ tab: 'hosts' }}>
          All hosts
        </TextLink>
      }
    >
      <Facts
        facts={[
          ['Joined', numberOf(hosts?.total, false)],
          ['Offline', numberOf(hosts?.offline, true)],
          ['Quarantined', numberOf(hosts?.quarantined, true)],
          ['Faulty GPUs', numberOf(gpus?.faulty, true)],
          ['Webhooks that wait', numberOf(pendingDeliveries, false)],
        ]}
      />
    </Card>
  )
}

const SHOWN_MODELS = 6

function Models() {
  const answer = useCall('listOperatedModels', undefined, { everyMs: EVERY_MS })
  return (
    <Card title="Models" actions={<TextLink to="/operator/models">All models</TextLink>}>
      <div className="min-h-36">
        <Answer of={answer} skeleton={<div className="h-36" />}>
          {({ models }) =>
            models.length === 0 ? (
              <p className="text-sm text-muted">No models yet.</p>
            ) : (
              <ul className="flex flex-col gap-2 text-sm">
                {models.slice(0, SHOWN_MODELS).map((model) => {
                  const { label, tone } = modelState(model)
                  return (
                    <li key={model.name} className="flex items-center justify-between gap-3">
                      <span className="min-w-0 truncate">{model.name}</span>
                      <Badge tone={tone}>{label}</Badge>
                    </li>
                  )
                })}
                {models.length > SHOWN_MODELS && (
                  <li className="text-muted">and {number(models.length - SHOWN_MODELS)} more</li>
                )}
              </ul>
            )
          }
        </Answer>
      </div>
    </Card>
  )
}
