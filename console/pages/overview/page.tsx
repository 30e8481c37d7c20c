/** Running machines, spend, balance and recent events, as far as the key's scopes allow. */
import type { Reply } from '../../../src/client/client.ts'
import { nanoUsdOf, parseUsd, sumUsd, zeroUsd } from '../../../src/base/money.ts'
import { isComingUp, isLiving } from '../../../src/domain/rental.ts'
import { localTime, span } from '../../../src/view/time.ts'
import { hourlyPrice, money } from '../../../src/view/money.ts'
import { count } from '../../../src/view/number.ts'
import type { OwnMachine } from '../../../src/view/own-machine.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { ButtonLink, TextLink } from '../../ui/button.tsx'
import { Card, Stat, Stats } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { useNow } from '../../ui/now.ts'
import { Page } from '../../ui/page.tsx'
import { Skeleton, SkeletonText } from '../../ui/skeleton.tsx'
import { EventList } from '../events/list.tsx'
import { MachineTable } from '../rentals/machine-table.tsx'
import { useOwnMachines } from '../rental/machine.ts'

const SHOWN_MACHINES = 8
const SHOWN_EVENTS = 8
const BALANCE_EVERY_MS = 10_000

export function OverviewPage() {
  const seesMachines = useMay('compute:read')
  const seesMoney = useMay('billing:read')
  const mayRent = useMay('compute:write')
  const mayInfer = useMay('inference')
  return (
    <Page
      actions={
        <>
          <ButtonLink to="/tour">Tour</ButtonLink>
          {mayInfer && <ButtonLink to="/chat">Chat</ButtonLink>}
          {mayRent && <ButtonLink to="/marketplace">Marketplace</ButtonLink>}
          {mayRent && (
            <ButtonLink to="/rent" look="primary">
              Rent a machine
            </ButtonLink>
          )}
        </>
      }
    >
      {(seesMachines || seesMoney) && (
        <Stats>
          {seesMachines && <MachineStat />}
          {seesMoney && <MoneyStats />}
        </Stats>
      )}
      {seesMachines && <Machines />}
      {(seesMachines || seesMoney) && <RecentEvents />}
      {!seesMachines && !seesMoney && (
        <Empty
          title="This key cannot view machines or billing"
          action={<ButtonLink to="/tour">Take the tour</ButtonLink>}
        >
          Use the pages in the navigation, or sign in with a key that has the scope compute:read or billing:read.
        </Empty>
      )}
    </Page>
  )
}

function MachineStat() {
  const { machines } = useOwnMachines()
  const running = machines?.filter(({ status }) => status === 'Running').length
  const starting = machines?.filter(({ status }) => isComingUp(status)).length ?? 0
  const failed = machines?.filter(({ status }) => status === 'Failed').length ?? 0
  const details = [starting > 0 && `${starting} starting`, failed > 0 && `${failed} failed`].filter(Boolean)
  return (
    <Stat
      label="Running machines"
      value={running ?? <SkeletonText className="w-8" />}
      detail={details.length === 0 ? ' ' : details.join(', ')}
    />
  )
}

function MoneyStats() {
  const balance = useCall('getCustomerBalance', {}, { everyMs: BALANCE_EVERY_MS })
  const { data } = balance
  const loading = <SkeletonText />
  return (
    <>
      <Stat
        label="Hourly spend"
        value={data === undefined ? loading : money(data.hourlySpendUsd)}
        detail={data === undefined ? ' ' : spendDetail(data)}
      />
      <Stat
        label="Balance"
        value={data === undefined ? loading : roundedMoney(data.balanceUsd)}
        detail={data === undefined ? ' ' : balanceDetail(data)}
      />
      <Runway balance={data} />
    </>
  )
}

/** Describes the volume part of the spend. The table of machines below adds up to the first amount. */
function spendDetail({ hourlySpendUsd, volumeSpendUsd }: Reply<'getCustomerBalance'>): string {
  const volumes = parseUsd(volumeSpendUsd) ?? zeroUsd
  const machines = nanoUsdOf((parseUsd(hourlySpendUsd) ?? zeroUsd) - volumes)
  return volumes === 0n ? 'for machines' : `${money(machines)} for machines + ${money(volumes)} for volumes`
}

function balanceDetail({ availableUsd, heldUsd, unbilledUsd }: Reply<'getCustomerBalance'>): string {
  const parts = `${money(availableUsd)} available + ${money(heldUsd)} on hold`
  return (parseUsd(unbilledUsd) ?? zeroUsd) === 0n ? parts : `${parts}, after ${money(unbilledUsd)} not charged yet`
}

function Runway({ balance }: { balance: Reply<'getCustomerBalance'> | undefined }) {
  const now = useNow()
  if (balance === undefined) return <Stat label="Balance lasts" value={<SkeletonText />} detail=" " />
  if (balance.emptyAt === null) {
    const isEmpty = (parseUsd(balance.balanceUsd) ?? zeroUsd) <= 0n
    return <Stat label="Balance lasts" value="—" detail={isEmpty ? 'Your balance is empty' : 'No current spend'} />
  }
  return (
    <Stat
      label="Balance lasts"
      value={span(Date.parse(balance.emptyAt) - now)}
      detail={`until ${localTime(balance.emptyAt)}`}
    />
  )
}

function Machines() {
  const { machines, readMs, failed } = useOwnMachines()
  const all = machines?.filter(({ status }) => isLiving(status) || status === 'Failed')
  return (
    <Card title="Machines" actions={<TextLink to="/rentals">All rentals</TextLink>}>
      <div className="min-h-52">
        {failed?.error ? (
          <ErrorNotice error={failed.error} onRetry={() => void failed.refetch()} isRead />
        ) : all === undefined ? (
          <Skeleton rows={4} />
        ) : (
          <>
            <MachineTable
              label="Machines"
              machines={all.slice(0, SHOWN_MACHINES)}
              readMs={readMs}
              empty={<FirstMachine />}
            />
            <OtherMachines machines={all.slice(SHOWN_MACHINES)} />
          </>
        )}
      </div>
    </Card>
  )
}

/** A row for machines that are not listed, so that the rows add up to the hourly spend. */
function OtherMachines({ machines }: { machines: readonly OwnMachine[] }) {
  if (machines.length === 0) return null
  const perHour = sumUsd(machines.map(({ currentCostPerHour }) => currentCostPerHour))
  return (
    <p className="mt-2 text-sm text-muted">
      {count(machines.length, 'more machine')}: {hourlyPrice(perHour)}
    </p>
  )
}

function FirstMachine() {
  return (
    <Empty
      title="No rentals yet"
      action={
        <div className="flex flex-wrap justify-center gap-2">
          <ButtonLink to="/rent" look="primary">
            Rent a machine
          </ButtonLink>
          <ButtonLink to="/tour">Take the tour</ButtonLink>
        </div>
      }
    >
      New here? The tour takes three steps: rent a machine, chat with a model, see what it cost.
    </Empty>
  )
}

function RecentEvents() {
  const events = useCall('listEvents', { query: { limit: SHOWN_EVENTS } })
  return (
    <Card title="Recent events" actions={<TextLink to="/events">All events</TextLink>}>
      <Answer of={events} skeleton={<Skeleton rows={4} />}>
        {(page) => (
          <EventList
            label="Recent events"
            events={page.events}
            empty={<Empty title="No events yet">Orders, payments and changes appear here.</Empty>}
          />
        )}
      </Answer>
    </Card>
  )
}

/** Rounds down to the cent, so that the balance does not flicker. */
function roundedMoney(usd: string): string {
  const [whole = '0', decimals = ''] = usd.split('.')
  return money(`${whole}.${decimals.slice(0, 2).padEnd(2, '0')}`)
}
