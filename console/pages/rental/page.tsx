/** One virtual machine or bare-metal rental. */
import { isMeantToRun, isReachable } from '../../../src/domain/rental.ts'
import { getRouteApi } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { localDate, localTime } from '../../../src/view/time.ts'
import { hourlyPrice, money } from '../../../src/view/money.ts'
import { displayName, machineOfRental } from '../../../src/view/own-machine.ts'
import { rentalKindLabels, withoutGpusText } from '../../../src/view/rental.ts'
import { useAction, useCall } from '../../api/query.ts'
import { RentalBadge } from '../../ui/badge.tsx'
import { ButtonLink } from '../../ui/button.tsx'
import { Card, Facts, type Fact } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { ExportButton, RentRentalAgain } from './again.tsx'
import { ChangeButton, ChangeRentalDialog } from './change.tsx'
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
  const rental = useCall('getRental', { params: { id: Number(id) } })
  if (rental.data !== undefined) return <OneRental rental={rental.data} readAtMs={rental.dataUpdatedAt} />
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

function OneRental({ rental, readAtMs }: { rental: Rental; readAtMs: number }) {
  const { tab } = route.useSearch()
  const navigate = route.useNavigate()
  const dialog = useDialog()
  const { state: status } = rental
  const machine = machineOfRental(rental)
  const name = displayName(machine)
  const cost = (
    <CostSoFar costUsd={rental.costSoFarUsd} readAtMs={readAtMs} pricePerHour={machine.pricePerHour} status={status} />
  )
  return (
    <Page
      title={name}
      intro={`${rentalKindLabels[rental.rentalType]}, ${machine.gpus}, ${rental.region}`}
      actions={
        <>
          <PowerButtons
            machine={{ kind: rental.rentalType, id: String(rental.id), shownName: name, actions: rental.actions }}
            dialog={dialog}
          />
          <RentRentalAgain rental={rental} />
          <ExportButton id={String(rental.id)} name={rental.name ?? String(rental.id)} dialog={dialog} />
          <ChangeButton
            status={status}
            onClick={() => dialog.open((close) => <ChangeRentalDialog rental={rental} onClose={close} />)}
          />
          <TerminateButton
            status={status}
            onClick={() =>
              dialog.open((close) => <EndRental rental={rental} name={name} cost={cost} onClose={close} />)
            }
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
        {...(status === 'Running' ? { live: <LiveMetrics id={String(rental.id)} /> } : {})}
      />
      <RentalTabs
        noun="rental"
        id={String(rental.id)}
        status={status}
        events={rental.events}
        state={<StatePanel rental={rental} cost={cost} />}
        volumes={
          <RentalVolumes
            id={String(rental.id)}
            rentalId={rental.id}
            name={name}
            kind={rental.rentalType}
            state={status}
            region={rental.region}
            providerId={rental.providerData.providerId}
          />
        }
        tab={tab}
        onChoose={(search) => void navigate({ search, replace: true })}
      />
      {dialog.shown}
    </Page>
  )
}

interface EndRentalProps {
  readonly rental: Rental
  readonly name: string
  readonly cost: ReactNode
  readonly onClose: () => void
}

function EndRental({ rental, name, cost, onClose }: EndRentalProps) {
  const changes = [
    'listAnyRentals',
    'getRental',
    'listVirtualMachineRentals',
    'listBareMetalRentals',
    'getCustomerBalance',
  ] as const
  const endVirtual = useAction('terminateVirtualMachineRental', changes)
  const endMetal = useAction('terminateBareMetalRental', changes)
  const end = rental.rentalType === 'bare-metal' ? endMetal : endVirtual
  return (
    <TerminateDialog
      name={name}
      cost={cost}
      commitment={rental.commitment}
      busy={end.isPending}
      error={end.error}
      onClose={onClose}
      onConfirm={(done) => end.mutate({ body: { rentalId: rental.id } }, { onSuccess: done })}
    />
  )
}

function StatePanel({ rental, cost }: { rental: Rental; cost: ReactNode }) {
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
      <RentalReach
        id={String(rental.id)}
        name={rental.name ?? String(rental.id)}
        status={rental.state}
        ssh={isReachable(rental.state) ? rental.providerData.sshNetworking?.[0] : undefined}
        ports={rental.ports}
      />
      <div className="flex min-w-0 flex-col gap-4">
        <Card title="State" actions={<RentalBadge status={rental.state} />}>
          {isMeantToRun(rental.state) && rental.statusMessage !== null && (
            <p role="status" className="mb-3 text-sm">
              {rental.statusMessage}
            </p>
          )}
          <RentalTimeline events={rental.events} status={rental.state} />
        </Card>
      </div>
      <div className="flex min-w-0 flex-col gap-4">
        <Card title="Cost">
          <Facts facts={costFacts(rental, cost)} />
        </Card>
        <Card title="Machine">
          <Facts facts={machineFacts(rental)} />
        </Card>
      </div>
    </div>
  )
}

function costFacts(rental: Rental, cost: ReactNode): Fact[] {
  const { currentTerm: term, spendingLimitUsd, autoTerminateAt } = rental
  const price = hourlyPrice(term.costPerHour)
  return [
    ['Cost so far', <strong key="cost">{cost}</strong>],
    ['Price', term.termType === 'reserved' ? `${price}, ${term.discountPercentage} % below the list price` : price],
    ['While stopped', rental.stoppedCostPerHourUsd && hourlyPrice(rental.stoppedCostPerHourUsd)],
    ['Without GPUs', withoutGpusText(rental)],
    ['Term', term.termType === 'reserved' ? `Reserved until ${localDate(term.reservedUntil)}` : 'On demand'],
    ['Ends at', autoTerminateAt === null ? 'No scheduled end' : localTime(autoTerminateAt)],
    ['Stops at', rental.stopAt && localTime(rental.stopAt)],
    ['Spending limit', spendingLimitUsd === null ? 'None' : money(spendingLimitUsd)],
  ]
}

function machineFacts(rental: Rental): Fact[] {
  const [node] = rental.nodes
  const size = node === undefined ? '—' : `${node.cpuCount} CPUs, ${node.ramGb} GB memory, ${node.storageGb} GB disk`
  return [
    ['Name', rental.name ?? '—'],
    ['Rental ID', rental.id],
    ['GPUs', `${machineOfRental(rental).gpus}, ${rental.gpuFormFactor.toUpperCase()}`],
    [rental.nodes.length > 1 ? `Each of the ${rental.nodes.length} machines` : 'Size', size],
    ['Network', rental.connectionType],
    ['Started', localTime(rental.startedAt)],
    ['Ended', rental.terminatedAt && localTime(rental.terminatedAt)],
    ['Ordered by', rental.createdBy.email],
  ]
}
