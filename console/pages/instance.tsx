/** One container of the marketplace: how it is, how it is reached, what it does and costs, what can be changed, and its end. */
import { getRouteApi } from '@tanstack/react-router'
import { useState, type ReactNode } from 'react'
import { usd } from '../../src/base/money.ts'
import type { Reply } from '../../src/client/client.ts'
import { useAction, useCall } from '../api/query.ts'
import { RentalBadge } from '../ui/badge.tsx'
import { ButtonLink } from '../ui/button.tsx'
import { Card, Facts } from '../ui/card.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'
import { money, number, time } from '../ui/format.ts'
import { Page } from '../ui/page.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { toast } from '../ui/toast.tsx'
import { EventList } from './event-list.tsx'
import { ChangeButton, ChangeInstanceDialog } from './rental-change.tsx'
import { CostSoFar } from './rental-cost.tsx'
import { TerminateButton, TerminateDialog } from './rental-end.tsx'
import { FailureNotice, StuckNotice } from './rental-failure.tsx'
import { RentalLogs } from './rental-logs.tsx'
import { callName, gpuWords, sshOfCommand } from './rental-machine.ts'
import { RentalMetrics } from './rental-metrics.tsx'
import { RentalReach } from './rental-reach.tsx'
import type { RentalTab } from './rental-search.ts'
import { RentalTerminal } from './rental-terminal.tsx'
import { RentalTimeline } from './rental-timeline.tsx'

const route = getRouteApi('/shell/instances/$id')

type Instance = Reply<'getInstance'>

export function InstancePage() {
  const { id } = route.useParams()
  const instance = useCall('getInstance', { params: { id } })
  if (instance.data !== undefined) return <OneInstance instance={instance.data} readAtMs={instance.dataUpdatedAt} />
  return (
    <Page title={id} actions={<ButtonLink to="/rentals">All rentals</ButtonLink>}>
      {instance.error === null ? (
        <Skeleton rows={10} />
      ) : (
        <ErrorNotice error={instance.error} onRetry={() => void instance.refetch()} isRead />
      )}
    </Page>
  )
}

function OneInstance({ instance, readAtMs }: { instance: Instance; readAtMs: number }) {
  const [open, setOpen] = useState<'change' | 'end'>()
  const close = (): void => setOpen(undefined)
  const { status, machine } = instance
  const name = callName(instance)
  const cost = (
    <CostSoFar
      costUsd={instance.costSoFarUsd}
      readAtMs={readAtMs}
      pricePerHour={usd(instance.pricePerHourUsd)}
      status={status}
    />
  )
  return (
    <Page
      title={name}
      intro={`Container, ${instance.gpuCount} × ${gpuWords(machine.gpuModel)}, ${machine.region}`}
      actions={
        <>
          <ChangeButton status={status} onClick={() => setOpen('change')} />
          <TerminateButton status={status} onClick={() => setOpen('end')} />
        </>
      }
    >
      {status === 'Failed' && (
        <FailureNotice reason={instance.statusReason ?? 'engine_failure'} message={instance.statusMessage} />
      )}
      {instance.stuckSince !== null && <StuckNotice since={instance.stuckSince} />}
      <InstanceTabs instance={instance} cost={cost} />
      {open === 'change' && <ChangeInstanceDialog instance={instance} onClose={close} />}
      {open === 'end' && <EndInstance id={instance.name} name={name} cost={cost} onClose={close} />}
    </Page>
  )
}

interface EndInstanceProps {
  readonly id: string
  readonly name: string
  readonly cost: ReactNode
  readonly onClose: () => void
}

function EndInstance({ id, name, cost, onClose }: EndInstanceProps) {
  const end = useAction('terminateInstance', ['getInstance', 'listInstances', 'listMachines', 'getCustomerBalance'])
  return (
    <TerminateDialog
      name={name}
      cost={cost}
      reservedUntil={null}
      busy={end.isPending}
      error={end.error}
      onClose={onClose}
      onConfirm={() =>
        end.mutate(
          { body: { id } },
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

const tabs: ReadonlyArray<{ readonly name: RentalTab; readonly label: string }> = [
  { name: 'state', label: 'State' },
  { name: 'metrics', label: 'Metrics' },
  { name: 'terminal', label: 'Terminal' },
  { name: 'logs', label: 'Logs' },
  { name: 'events', label: 'Events' },
]

function InstanceTabs({ instance, cost }: { instance: Instance; cost: ReactNode }) {
  const { tab = 'state' } = route.useSearch()
  const navigate = route.useNavigate()
  const id = instance.name
  const isRunning = instance.status === 'Running'
  const panels: Readonly<Record<Exclude<RentalTab, 'volumes'>, ReactNode>> = {
    state: <StatePanel instance={instance} cost={cost} />,
    metrics: <RentalMetrics id={id} isRunning={isRunning} />,
    terminal: <RentalTerminal id={id} isRunning={isRunning} />,
    logs: <RentalLogs id={id} />,
    events: <EventList label="Events of this instance" events={instance.events} empty={null} hideSubject />,
  }
  const chosen = tab === 'volumes' ? 'state' : tab
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

function StatePanel({ instance, cost }: { instance: Instance; cost: ReactNode }) {
  const { status, statusMessage } = instance
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
      <RentalReach
        name={instance.name}
        status={status}
        ssh={sshOfCommand(instance.sshCommand)}
        ports={instance.portMappings}
      />
      <Card title="State" actions={<RentalBadge status={status} />}>
        {status === 'Pending' && statusMessage !== null && (
          <p role="status" className="mb-3 text-sm">
            {statusMessage}
          </p>
        )}
        <RentalTimeline events={instance.events} status={status} />
      </Card>
      <Card title="Cost and machine">
        <Facts facts={factsOf(instance, cost)} />
      </Card>
    </div>
  )
}

function factsOf(instance: Instance, cost: ReactNode): ReadonlyArray<readonly [string, ReactNode]> {
  const { image, machine, resources, autoTerminateAt, spendingLimitUsd } = instance
  const { cpuCount, ramGb, storageGb } = resources
  return [
    [
      'So far',
      <span key="cost" className="font-medium">
        {cost}
      </span>,
    ],
    ['Price', `${money(instance.pricePerHourUsd)} an hour`],
    ['Ends by itself', autoTerminateAt === null ? 'No' : time(autoTerminateAt)],
    ['Spending limit', spendingLimitUsd === null ? 'None' : money(spendingLimitUsd)],
    ['Image', image === null ? 'The default' : [image.name, image.tag].filter(Boolean).join(':')],
    ['Share', `${number(cpuCount)} CPUs, ${number(ramGb)} GB memory, ${number(storageGb)} GB disk`],
    ['Machine', `${machine.nodeName} in ${machine.clusterName}`],
    ['Name', instance.name],
    ['Number', instance.rentalId],
    ['Started', time(instance.startedAt)],
    ...(instance.terminatedAt === null ? [] : [['Ended', time(instance.terminatedAt)] as const]),
  ]
}
