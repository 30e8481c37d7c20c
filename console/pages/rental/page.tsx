/** One rental of any kind. The URL contains its id or its name. */
import { getRouteApi } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { isMeantToRun } from '../../../src/domain/rental.ts'
import { localDate, localTime } from '../../../src/view/time.ts'
import { hourlyPrice, money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { displayName, machineOf, type OwnMachine } from '../../../src/view/own-machine.ts'
import { imageLabel, rentalKindLabels, withoutGpusText } from '../../../src/view/rental.ts'
import { useCall } from '../../api/query.ts'
import { RentalBadge } from '../../ui/badge.tsx'
import { ButtonLink } from '../../ui/button.tsx'
import { Card, Facts, type Fact } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { ExportButton, RentAgain } from './again.tsx'
import { ChangeButton, ChangeDialog } from './change.tsx'
import { CostSoFar } from './cost.tsx'
import { TerminateButton, TerminateDialog } from './end.tsx'
import { FailureNotice, StuckNotice, UnreachableNotice, unreachableSince } from './failure.tsx'
import { SimulatedNotice } from './simulated-notice.tsx'
import { RentalReach } from './reach.tsx'
import { LiveMetrics } from './live-metrics.tsx'
import { RentalStrip } from './strip.tsx'
import { PowerButtons } from './power.tsx'
import { StoppedNotice } from './stopped-notice.tsx'
import { RentalTabs } from './tabs.tsx'
import { RentalTimeline } from './timeline.tsx'
import { RentalVolumes } from './volumes.tsx'

const route = getRouteApi('/shell/rentals/$id')

type Rental = Reply<'getRental'>

export function RentalPage() {
  const { id } = route.useParams()
  const rental = useCall('getRental', { params: { id } })
  if (rental.data !== undefined) return <OneRental rental={rental.data} readMs={rental.dataUpdatedAt} />
  return (
    <Page title={`Rental ${id}`} actions={<ButtonLink to="/rentals">All rentals</ButtonLink>}>
      {rental.error === null ? (
        <Skeleton rows={10} />
      ) : (
        <ErrorNotice error={rental.error} onRetry={() => void rental.refetch()} isRead />
      )}
    </Page>
  )
}

function OneRental({ rental, readMs }: { rental: Rental; readMs: number }) {
  const { tab } = route.useSearch()
  const navigate = route.useNavigate()
  const dialog = useDialog()
  const { state: status } = rental
  const machine = machineOf(rental)
  const { id } = machine
  const name = displayName(machine)
  const cost = <CostSoFar machine={machine} readMs={readMs} />
  return (
    <Page
      title={name}
      intro={`${rentalKindLabels[rental.kind]}, ${machine.gpus}, ${rental.region}`}
      actions={
        <>
          <PowerButtons machine={{ ...machine, shownName: name }} dialog={dialog} />
          <RentAgain rental={rental} />
          <ExportButton id={id} name={rental.name} dialog={dialog} />
          <ChangeButton
            status={status}
            onClick={() => dialog.open((close) => <ChangeDialog rental={rental} onClose={close} />)}
          />
          <TerminateButton
            status={status}
            onClick={() => dialog.open((close) => <TerminateDialog rental={rental} cost={cost} onClose={close} />)}
          />
        </>
      }
    >
      {status === 'Failed' && (
        <FailureNotice reason={rental.statusReason ?? 'engine_failure'} message={rental.statusMessage} />
      )}
      {status === 'Unknown' && (
        <UnreachableNotice since={unreachableSince(rental.events)} reason={rental.statusReason} />
      )}
      <StoppedNotice rental={rental} />
      {rental.stuckSince !== null && <StuckNotice since={rental.stuckSince} />}
      <SimulatedNotice simulated={rental.simulated} />
      <RentalStrip
        badge={<RentalBadge status={status} />}
        cost={cost}
        pricePerHour={machine.pricePerHour}
        startedAt={rental.startedAt}
        endedAt={rental.terminatedAt}
        {...(status === 'Running' ? { live: <LiveMetrics id={id} /> } : {})}
      />
      <RentalTabs
        id={id}
        status={status}
        events={rental.events}
        state={<StatePanel rental={rental} machine={machine} cost={cost} />}
        volumes={<RentalVolumes rental={rental} />}
        tab={tab}
        onChoose={(search) => void navigate({ search, replace: true })}
      />
      {dialog.shown}
    </Page>
  )
}

interface StatePanelProps {
  readonly rental: Rental
  readonly machine: OwnMachine
  readonly cost: ReactNode
}

function StatePanel({ rental, machine, cost }: StatePanelProps) {
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
      <RentalReach id={machine.id} name={rental.name} status={rental.state} ssh={machine.ssh} ports={rental.ports} />
      <div className="flex min-w-0 flex-col gap-4">
        <Card title="State" actions={<RentalBadge status={rental.state} />}>
          {isMeantToRun(rental.state) && rental.statusMessage !== null && (
            <p role="status" className="mb-3 text-sm">
              {rental.statusMessage}
            </p>
          )}
          <RentalTimeline events={rental.events} status={rental.state} />
        </Card>
        <Card title="Cost">
          <Facts facts={costFacts(rental, cost)} />
        </Card>
      </div>
      <Card title="Machine">
        <Facts facts={machineFacts(rental, machine)} />
      </Card>
    </div>
  )
}

function costFacts(rental: Rental, cost: ReactNode): Fact[] {
  const { spendingLimitUsd, autoTerminateAt, termEndsAt, discountPercentage } = rental
  const price = hourlyPrice(rental.pricePerHourUsd)
  return [
    ['Cost so far', <strong key="cost">{cost}</strong>],
    ['Price', discountPercentage === null ? price : `${price}, ${discountPercentage} % below the list price`],
    ['While stopped', rental.stoppedCostPerHourUsd && hourlyPrice(rental.stoppedCostPerHourUsd)],
    ['Without GPUs', withoutGpusText(rental)],
    ['Term', termEndsAt === null ? 'On demand' : `Reserved until ${localDate(termEndsAt)}`],
    ['Ends at', autoTerminateAt === null ? 'No scheduled end' : localTime(autoTerminateAt)],
    ['Stops at', rental.stopAt && localTime(rental.stopAt)],
    ['Spending limit', spendingLimitUsd === null ? 'None' : money(spendingLimitUsd)],
  ]
}

function machineFacts(rental: Rental, { gpus }: OwnMachine): Fact[] {
  const { kind, machines, gpuFormFactor, resources } = rental
  const { cpuCount, ramGb, storageGb } = resources
  return [
    ['Name', rental.name],
    ['Rental ID', rental.id],
    ['GPUs', gpuFormFactor === null || kind === 'container' ? gpus : `${gpus}, ${gpuFormFactor.toUpperCase()}`],
    [
      machines.length > 1 ? 'Size in total' : 'Size',
      `${number(cpuCount)} CPUs, ${number(ramGb)} GB memory, ${number(storageGb)} GB disk`,
    ],
    ['Network', rental.networkType],
    ['Image', kind === 'container' && imageLabel(rental.image)],
    [machines.length > 1 ? 'Machines' : 'Machine', machineNames(rental)],
    ['Started', localTime(rental.startedAt)],
    ['Exit code', rental.exitCode],
    ['Ended', rental.terminatedAt && localTime(rental.terminatedAt)],
    ['Ordered by', rental.orderedBy.email],
  ]
}

function machineNames({ machines, clusterName }: Rental): string {
  return `${machines.map(({ id }) => id).join(', ')} in ${clusterName}`
}
