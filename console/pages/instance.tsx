/**
 * One container of the marketplace. The interface has no page of its own for one: it is found in the list of those that
 * run, or in the history; its number, under which events speak of it, comes with its measurements.
 */
import { getRouteApi } from '@tanstack/react-router'
import { useState, type ReactNode } from 'react'
import { costOfSpan } from '../../src/base/money.ts'
import type { Reply } from '../../src/client/client.ts'
import { useMay } from '../api/me.ts'
import { useAction, useCall } from '../api/query.ts'
import { Answer } from '../ui/answer.tsx'
import { RentalBadge } from '../ui/badge.tsx'
import { ButtonLink } from '../ui/button.tsx'
import { Card, Facts } from '../ui/card.tsx'
import { Empty } from '../ui/empty.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'
import { money, time } from '../ui/format.ts'
import { useNow } from '../ui/now.ts'
import { Page } from '../ui/page.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { toast } from '../ui/toast.tsx'
import { EventList } from './event-list.tsx'
import { shortMoney } from './rental-cost.tsx'
import { TerminateButton, TerminateDialog } from './rental-end.tsx'
import { FailureNotice } from './rental-failure.tsx'
import { RentalLogs } from './rental-logs.tsx'
import {
  callName,
  gpuWords,
  machineOfInstance,
  mostCost,
  priceOfGpus,
  sshOfInstance,
  type Instance,
  type OwnMachine,
} from './rental-machine.ts'
import { RentalMetrics } from './rental-metrics.tsx'
import { RentalReach } from './rental-reach.tsx'
import type { RentalTab } from './rental-search.ts'
import { RentalTerminal } from './rental-terminal.tsx'
import { RentalTimeline } from './rental-timeline.tsx'

const route = getRouteApi('/shell/instances/$id')

type Ended = Reply<'listInstanceHistory'>['instance_history'][number]

export function InstancePage() {
  const { id } = route.useParams()
  const current = useCall('listInstances')
  const instance = current.data?.instances.find((one) => one.id === id)
  const history = useCall('listInstanceHistory', {}, { enabled: current.data !== undefined && instance === undefined })
  const ended = history.data?.instance_history.find((one) => one.instance_name === id)
  if (instance !== undefined) return <RunningInstance instance={instance} />
  if (ended !== undefined) return <EndedInstance ended={ended} />
  const failed = [current, history].find((one) => one.error !== null && one.data === undefined)
  return (
    <Page title={id} actions={<ButtonLink to="/rentals">All rentals</ButtonLink>}>
      {failed !== undefined && failed.error !== null ? (
        <ErrorNotice error={failed.error} onRetry={() => void failed.refetch()} />
      ) : history.data === undefined ? (
        <Skeleton rows={10} />
      ) : (
        <Empty title="There is no such instance" action={<ButtonLink to="/rentals">All rentals</ButtonLink>}>
          It may be of another account, or its name was typed wrongly.
        </Empty>
      )}
    </Page>
  )
}

function RunningInstance({ instance }: { instance: Instance }) {
  const [isEnding, setEnding] = useState(false)
  const machine = machineOfInstance(instance)
  const name = callName(machine)
  return (
    <Page
      title={name}
      intro={`Container, ${machine.gpus}, ${machine.region}`}
      actions={<TerminateButton status={machine.status} onClick={() => setEnding(true)} />}
    >
      <InstanceTabs id={machine.id} status={machine.status}>
        {(events) => <StatePanel instance={instance} machine={machine} events={events} />}
      </InstanceTabs>
      {isEnding && <EndInstance machine={machine} onClose={() => setEnding(false)} />}
    </Page>
  )
}

function EndInstance({ machine, onClose }: { machine: OwnMachine; onClose: () => void }) {
  const end = useAction('terminateInstance', [
    'listInstances',
    'listInstanceHistory',
    'listMachines',
    'getCustomerBalance',
    'listEvents',
  ])
  const name = callName(machine)
  return (
    <TerminateDialog
      name={name}
      cost={<AtMost machine={machine} />}
      reservedUntil={null}
      busy={end.isPending}
      error={end.error}
      onClose={onClose}
      onConfirm={() =>
        end.mutate(
          { body: { id: machine.id } },
          {
            onSuccess: () => {
              toast(`${name} ends; its bill has stopped`)
              onClose()
            },
          },
        )
      }
    />
  )
}

type Events = Reply<'listEvents'>['events']

interface InstanceTabsProps {
  readonly id: string
  readonly status: OwnMachine['status']
  readonly children: (events: Events) => ReactNode
}

const tabs: ReadonlyArray<{ readonly name: RentalTab; readonly label: string }> = [
  { name: 'state', label: 'State' },
  { name: 'metrics', label: 'Metrics' },
  { name: 'terminal', label: 'Terminal' },
  { name: 'logs', label: 'Logs' },
  { name: 'events', label: 'Events' },
]

function InstanceTabs({ id, status, children }: InstanceTabsProps) {
  const { tab = 'state' } = route.useSearch()
  const navigate = route.useNavigate()
  const number = useCall('getRentalMetrics', { params: { id } })
  const events = useCall(
    'listEvents',
    { query: { limit: 100, subject: `rental:${number.data?.rentalId ?? 0}` } },
    { enabled: number.data !== undefined },
  )
  const chosen = tab === 'volumes' ? 'state' : tab
  const isRunning = status === 'Running'
  const panels: Readonly<Record<Exclude<RentalTab, 'volumes'>, ReactNode>> = {
    state: (
      <Answer of={events} skeleton={<Skeleton rows={8} />}>
        {(page) => children(page.events)}
      </Answer>
    ),
    metrics: <RentalMetrics id={id} isRunning={isRunning} />,
    terminal: <RentalTerminal id={id} isRunning={isRunning} />,
    logs: <RentalLogs id={id} />,
    events: (
      <Answer of={events}>
        {(page) => <EventList label="Events of this instance" events={page.events} empty={null} hideSubject />}
      </Answer>
    ),
  }
  return (
    <Tabs
      label="About this instance"
      tabs={tabs}
      chosen={chosen}
      onChoose={(next) => void navigate({ search: next === 'state' ? {} : { tab: next }, replace: true })}
    >
      {panels[chosen]}
    </Tabs>
  )
}

interface StatePanelProps {
  readonly instance: Instance
  readonly machine: OwnMachine
  readonly events: Events
}

function StatePanel({ instance, machine, events }: StatePanelProps) {
  const failure = machine.status === 'Failed' ? events.find(({ type }) => type === 'rental.failed')?.data : undefined
  const text = (value: unknown): string | null => (typeof value === 'string' ? value : null)
  return (
    <div className="flex flex-col gap-4">
      {failure !== undefined && (
        <FailureNotice reason={text(failure['reason']) ?? 'engine_failure'} message={text(failure['detail'])} />
      )}
      <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
        <Card title="State" actions={<RentalBadge status={machine.status} />}>
          {instance.status_message !== undefined && (
            <p role="status" className="mb-3 text-sm">
              {instance.status_message}
            </p>
          )}
          <RentalTimeline events={events} status={machine.status} />
        </Card>
        <div className="flex min-w-0 flex-col gap-4">
          <RentalReach
            name={machine.name}
            status={machine.status}
            ssh={sshOfInstance(instance)}
            ports={instance.portMappings.map(({ domain, port }) => ({ port: null, host: domain, publicPort: port }))}
          />
          <Card title="Cost and machine">
            <Facts
              facts={[
                ['So far', <AtMost key="cost" machine={machine} />],
                ['Price', `${money(machine.pricePerHour)} an hour`],
                ['Name', machine.name],
                ['GPUs', machine.gpus],
                ['Machine', instance.instance.id],
                ['Started', time(machine.startedAt)],
              ]}
            />
          </Card>
        </div>
      </div>
    </div>
  )
}

function AtMost({ machine }: { machine: OwnMachine }) {
  const cost = mostCost(machine, useNow())
  if (cost === undefined) return 'Nothing is charged at the moment'
  return <span className="tabular-nums">at most {shortMoney(cost)}</span>
}

function EndedInstance({ ended }: { ended: Ended }) {
  const maySeeMoney = useMay('billing:read')
  return (
    <Page
      title={ended.instance_name}
      intro="This container has ended."
      actions={
        <>
          {maySeeMoney && <ButtonLink to="/billing">Statement</ButtonLink>}
          <ButtonLink to="/rentals" search={{ tab: 'ended' }}>
            Ended rentals
          </ButtonLink>
        </>
      }
    >
      <InstanceTabs id={ended.instance_name} status="Terminated">
        {(events) => (
          <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
            <Card title="State" actions={<RentalBadge status="Terminated" />}>
              <RentalTimeline events={events} status="Terminated" />
            </Card>
            <Card title="Cost and machine">
              <Facts facts={endedFacts(ended)} />
            </Card>
          </div>
        )}
      </InstanceTabs>
    </Page>
  )
}

function endedFacts(ended: Ended): ReadonlyArray<readonly [string, ReactNode]> {
  const { started_at: start, terminated_at: end } = ended
  const price = priceOfGpus(ended.price.amount, ended.gpu_count)
  const ms = start === null || end === null ? 0 : Math.max(0, Date.parse(end) - Date.parse(start))
  return [
    ['Cost', `at most ${shortMoney(costOfSpan(price, ms))}`],
    ['Price', `${money(price)} an hour`],
    ['GPUs', `${ended.gpu_count} × ${gpuWords(ended.hardware.gpus[0]?.model)}`],
    ['Started', time(start)],
    ['Ended', time(end)],
  ]
}
