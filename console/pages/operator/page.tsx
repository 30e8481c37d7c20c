/** The first page of operators: money, health and traffic of the whole installation, and what needs attention. */
import type { Reply } from '../../../src/client/client.ts'
import { sumUsd, usd } from '../../../src/base/money.ts'
import { modelState } from '../../../src/view/model.ts'
import { money } from '../../../src/view/money.ts'
import { count, number } from '../../../src/view/number.ts'
import { useOperatorEvents } from '../../api/live-operator.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { ButtonLink, TextLink } from '../../ui/button.tsx'
import { Card, Facts, Stats } from '../../ui/card.tsx'
import { LineChart } from '../../ui/line-chart.tsx'
import { Page } from '../../ui/page.tsx'
import { Progress } from '../../ui/progress.tsx'
import { SkeletonText } from '../../ui/skeleton.tsx'
import { StuckWarning } from '../traffic/stuck.tsx'
import { Alerts } from './alerts.tsx'

const EVERY_MS = 10_000
const MINUTES = 60

type Summary = Reply<'getOperatorSummary'>

export function OperatorPage() {
  const summary = useCall('getOperatorSummary', undefined, { everyMs: EVERY_MS })
  useOperatorEvents()
  return (
    <Page
      intro="Money, health and traffic of this installation."
      actions={
        <>
          <ButtonLink to="/operator/accounts">Accounts</ButtonLink>
          <ButtonLink to="/operator/fleet">Fleet</ButtonLink>
        </>
      }
    >
      <StuckWarning />
      <Answer of={summary} skeleton={<MoneyStats money={undefined} />}>
        {({ money: sums }) => <MoneyStats money={sums} />}
      </Answer>
      <div className="grid grid-cols-1 items-stretch gap-4 xl:grid-cols-3">
        <Traffic />
        <Alerts />
      </div>
      <div className="grid grid-cols-1 items-stretch gap-4 lg:grid-cols-3">
        <Rentals rentals={summary.data?.rentals} />
        <Capacity summary={summary.data} />
        <Models />
      </div>
    </Page>
  )
}

function MoneyStats({ money: sums }: { money: Summary['money'] | undefined }) {
  const amount = (of: (all: Summary['money']) => string) =>
    sums === undefined ? <SkeletonText /> : money(usd(of(sums)))
  return (
    <Stats
      stats={[
        [
          'Charged today',
          amount((all) => all.chargedTodayUsd),
          sums === undefined ? ' ' : `${money(sums.chargedThisMonthUsd)} this month`,
        ],
        ['Paid in today', amount((all) => all.paidInTodayUsd), 'by customers'],
        [
          'Balances after charges',
          amount((all) => all.balancesUsd),
          sums === undefined ? ' ' : `${money(sums.heldUsd)} on hold`,
        ],
        ['Owed to suppliers', amount((all) => all.unpaidEarningsUsd), 'not paid out yet'],
      ]}
    />
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

function Capacity({ summary }: { summary: Summary | undefined }) {
  const { gpus, hosts, pendingDeliveries } = summary ?? {}
  const textOf = (text: string | undefined) => text ?? <SkeletonText className="w-28" />
  return (
    <Card
      title="Capacity"
      actions={
        <TextLink to="/operator/fleet" search={{ tab: 'hosts' }}>
          All hosts
        </TextLink>
      }
    >
      <p className="mb-1 text-sm">{textOf(gpus && `${number(gpus.rented)} of ${count(gpus.total, 'GPU')} rented`)}</p>
      <Progress label="GPUs rented" value={gpus?.rented ?? 0} max={Math.max(1, gpus?.total ?? 1)} />
      <div className="mt-3">
        <Facts
          facts={[
            ['Faulty GPUs', textOf(gpus && number(gpus.faulty))],
            [
              'Hosts',
              textOf(
                hosts &&
                  `${number(hosts.total)}, ${number(hosts.offline)} offline, ${number(hosts.quarantined)} quarantined`,
              ),
            ],
            ['Webhooks', textOf(pendingDeliveries === undefined ? undefined : `${number(pendingDeliveries)} pending`)],
          ]}
        />
      </div>
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
