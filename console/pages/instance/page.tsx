/** One marketplace container. */
import { isMeantToRun } from '../../../src/domain/rental.ts'
import { getRouteApi } from '@tanstack/react-router'
import { useState, type ReactNode } from 'react'
import { usd } from '../../../src/base/money.ts'
import type { Reply } from '../../../src/client/client.ts'
import { localTime } from '../../../src/view/time.ts'
import { hourlyPrice, money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { displayName, parseSshCommand } from '../../../src/view/own-machine.ts'
import { gpuLabel } from '../../../src/view/gpu.ts'
import { imageLabel, withoutGpusText } from '../../../src/view/rental.ts'
import { useAction, useCall } from '../../api/query.ts'
import { RentalBadge } from '../../ui/badge.tsx'
import { ButtonLink } from '../../ui/button.tsx'
import { Card, Facts, type Fact } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { ExportButton, RentInstanceAgain } from '../rental/again.tsx'
import { ChangeButton, ChangeInstanceDialog } from '../rental/change.tsx'
import { CostSoFar } from '../rental/cost.tsx'
import { TerminateButton, TerminateDialog } from '../rental/end.tsx'
import { FailureNotice, StuckNotice, UnreachableNotice, unreachableSince } from '../rental/failure.tsx'
import { SimulatedNotice } from '../rental/simulated-notice.tsx'
import { RentalReach } from '../rental/reach.tsx'
import { LiveMetrics } from '../rental/live-metrics.tsx'
import { RentalStrip } from '../rental/strip.tsx'
import { PowerButtons } from '../rental/power.tsx'
import { StoppedNotice } from '../rental/stopped-notice.tsx'
import { RentalTabs } from '../rental/tabs.tsx'
import { RentalTimeline } from '../rental/timeline.tsx'
import { RentalVolumes } from '../rental/volumes.tsx'

const route = getRouteApi('/shell/rentals/containers/$id')

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
  const { tab } = route.useSearch()
  const navigate = route.useNavigate()
  const [open, setOpen] = useState<'change' | 'end'>()
  const close = (): void => setOpen(undefined)
  const dialog = useDialog()
  const { state: status, machine } = instance
  const name = displayName(instance)
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
      intro={`Container, ${instance.gpuCount} × ${gpuLabel(machine.gpuModel)}, ${machine.region}`}
      actions={
        <>
          <PowerButtons
            machine={{ kind: 'container', id: instance.name, shownName: name, actions: instance.actions }}
            dialog={dialog}
          />
          <RentInstanceAgain name={instance.name} />
          <ExportButton id={instance.name} name={instance.name} dialog={dialog} />
          <ChangeButton status={status} onClick={() => setOpen('change')} />
          <TerminateButton status={status} onClick={() => setOpen('end')} />
        </>
      }
    >
      {status === 'Failed' && (
        <FailureNotice reason={instance.statusReason ?? 'engine_failure'} message={instance.statusMessage} />
      )}
      {status === 'Unknown' && (
        <UnreachableNotice since={unreachableSince(instance.events)} reason={instance.statusReason} />
      )}
      <StoppedNotice rental={instance} />
      {instance.stuckSince !== null && <StuckNotice since={instance.stuckSince} />}
      <SimulatedNotice simulated={instance.simulated} />
      <RentalStrip
        badge={<RentalBadge status={status} />}
        cost={cost}
        pricePerHour={usd(instance.pricePerHourUsd)}
        startedAt={instance.startedAt}
        endedAt={instance.terminatedAt}
        {...(status === 'Running' ? { live: <LiveMetrics id={instance.name} /> } : {})}
      />
      <RentalTabs
        noun="container"
        id={instance.name}
        status={status}
        events={instance.events}
        state={<StatePanel instance={instance} cost={cost} />}
        volumes={
          <RentalVolumes
            id={instance.name}
            rentalId={instance.rentalId}
            name={name}
            kind="container"
            state={status}
            region={machine.region}
            providerId={undefined}
          />
        }
        tab={tab}
        onChoose={(search) => void navigate({ search, replace: true })}
      />
      {dialog.shown}
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
  const end = useAction('terminateInstance', ['getInstance', 'listAnyRentals', 'searchMachines', 'getCustomerBalance'])
  return (
    <TerminateDialog
      name={name}
      cost={cost}
      commitment={null}
      busy={end.isPending}
      error={end.error}
      onClose={onClose}
      onConfirm={(done) => end.mutate({ body: { id } }, { onSuccess: done })}
    />
  )
}

function StatePanel({ instance, cost }: { instance: Instance; cost: ReactNode }) {
  const { state: status, statusMessage } = instance
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
      <RentalReach
        id={instance.name}
        name={instance.name}
        status={status}
        ssh={parseSshCommand(instance.sshCommand)}
        ports={instance.ports}
      />
      <Card title="State" actions={<RentalBadge status={status} />}>
        {isMeantToRun(status) && statusMessage !== null && (
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

function factsOf(instance: Instance, cost: ReactNode): Fact[] {
  const { image, machine, resources, autoTerminateAt, spendingLimitUsd } = instance
  const { cpuCount, ramGb, storageGb } = resources
  return [
    ['Cost so far', <strong key="cost">{cost}</strong>],
    ['Price', hourlyPrice(instance.pricePerHourUsd)],
    ['While stopped', instance.stoppedCostPerHourUsd && hourlyPrice(instance.stoppedCostPerHourUsd)],
    ['Without GPUs', withoutGpusText(instance)],
    ['Stops at', instance.stopAt && localTime(instance.stopAt)],
    ['Ends at', autoTerminateAt === null ? 'No scheduled end' : localTime(autoTerminateAt)],
    ['Spending limit', spendingLimitUsd === null ? 'None' : money(spendingLimitUsd)],
    ['Image', imageLabel(image)],
    ['Resources', `${number(cpuCount)} CPUs, ${number(ramGb)} GB memory, ${number(storageGb)} GB disk`],
    ['Machine', `${machine.nodeName} in ${machine.clusterName}`],
    ['Name', instance.name],
    ['Rental ID', instance.rentalId],
    ['Started', localTime(instance.startedAt)],
    ['Ended', instance.terminatedAt && localTime(instance.terminatedAt)],
  ]
}
