/** Rentals of all accounts. Stuck rentals come first, with the next step. */
import { getRouteApi } from '@tanstack/react-router'
import { rentalStatus } from '../../../src/contract/rental.ts'
import { count } from '../../../src/view/number.ts'
import { rentalKindLabels } from '../../../src/view/rental.ts'
import { localTime, relativeTime } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { PAGE_ROWS, Pager, usePages } from '../../ui/pager.tsx'
import { Answer } from '../../ui/answer.tsx'
import { RentalBadge } from '../../ui/badge.tsx'
import { TextLink } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { SelectField } from '../../ui/field.tsx'
import { useNow } from '../../ui/now.ts'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table, VirtualTable, type Column } from '../../ui/table.tsx'
import { AccountField } from './account-field.tsx'
import type { AnyRental } from './read.ts'

const route = getRouteApi('/shell/operator/fleet')
const STUCK_SHOWN = 100

export function FleetRentals() {
  const { rental: status, account } = route.useSearch()
  const navigate = route.useNavigate()
  const pages = usePages(JSON.stringify([status, account]))
  const query = { limit: PAGE_ROWS, cursor: pages.cursor, status, accountId: account }
  const rentals = useCall('listAllRentals', { query }, { keepsLast: true })
  const columns = columnsOf(useNow())
  return (
    <div className="flex flex-col gap-4">
      <StuckRentals />
      <div className="grid gap-3 sm:grid-cols-2" role="search" aria-label="Rentals">
        <SelectField
          label="State"
          choices={[{ value: '', label: 'Any' }, ...rentalStatus.options.map((value) => ({ value, label: value }))]}
          value={status ?? ''}
          onChange={(event) => {
            const chosen = rentalStatus.options.find((one) => one === event.target.value)
            void navigate({ search: (before) => ({ ...before, rental: chosen }), replace: true })
          }}
        />
        <AccountField
          value={account ?? ''}
          onChange={(id) =>
            void navigate({ search: (before) => ({ ...before, account: id || undefined }), replace: true })
          }
        />
      </div>
      <Answer of={rentals} skeleton={<Skeleton rows={8} />}>
        {({ rentals: rows, nextCursor }) => (
          <>
            <VirtualTable
              label="Rentals of all accounts"
              columns={columns}
              rows={rows}
              rowKey={(rental) => rental.id}
              empty={<Empty title="No rentals match">Rentals of all accounts are listed here.</Empty>}
            />
            <Pager pages={pages} nextCursor={nextCursor} />
          </>
        )}
      </Answer>
    </div>
  )
}

function StuckRentals() {
  const stuck = useCall('listAllRentals', { query: { stuck: true, limit: STUCK_SHOWN } })
  const columns = stuckColumns(useNow())
  return (
    <Answer of={stuck} skeleton={<></>}>
      {({ rentals }) =>
        rentals.length > 0 && (
          <Card title={count(rentals.length, 'stuck rental')}>
            <Table label="Stuck rentals" columns={columns} rows={rentals} rowKey={(rental) => rental.id} empty={null} />
          </Card>
        )
      }
    </Answer>
  )
}

function stuckColumns(now: number): ReadonlyArray<Column<AnyRental>> {
  return [
    { name: 'name', header: 'Rental', cell: (rental) => <RentalName rental={rental} /> },
    { name: 'account', header: 'Account', cell: (rental) => <AccountLink rental={rental} /> },
    { name: 'status', header: 'State', cell: (rental) => <RentalBadge status={rental.status} /> },
    {
      name: 'since',
      header: 'Stuck since',
      cell: (rental) => <span title={localTime(rental.stuckSince)}>{relativeTime(rental.stuckSince, now)}</span>,
    },
    { name: 'next', header: 'Next step', cell: (rental) => <NextStep rental={rental} /> },
  ]
}

/** The customer is not charged; the machine has to be removed at the engine. */
function NextStep({ rental }: { rental: AnyRental }) {
  return (
    <p className="max-w-prose min-w-64">
      After {count(rental.attempts, 'attempt')} the engine <span className="font-mono">{rental.driver}</span> still
      reports{' '}
      {rental.externalId === null ? 'the machine' : <span className="font-mono break-all">{rental.externalId}</span>}.
      Berth keeps trying, and nobody is charged.{' '}
      <TextLink to="/operator/fleet" search={{ tab: 'engines' }}>
        Check the engine
      </TextLink>
      , and remove the machine there if it stays.
      {rental.lastError !== null && (
        <span className="mt-1 block text-bad">
          Last error, {localTime(rental.lastErrorAt)}: {rental.lastError}
        </span>
      )}
    </p>
  )
}

function columnsOf(now: number): ReadonlyArray<Column<AnyRental>> {
  return [
    { name: 'name', header: 'Rental', width: 'minmax(0, 1.4fr)', cell: (rental) => <RentalName rental={rental} /> },
    { name: 'account', header: 'Account', cell: (rental) => <AccountLink rental={rental} /> },
    { name: 'kind', header: 'Kind', width: '8rem', cell: (rental) => rentalKindLabels[rental.kind] },
    { name: 'gpus', header: 'GPUs', align: 'right', width: '4rem', cell: (rental) => rental.gpuCount },
    { name: 'region', header: 'Region', cell: (rental) => rental.region },
    { name: 'driver', header: 'Engine', width: '5.5rem', cell: (rental) => rental.driver },
    { name: 'status', header: 'State', width: '8rem', cell: (rental) => <RentalBadge status={rental.status} /> },
    {
      name: 'since',
      header: 'Since',
      width: '8.5rem',
      cell: (rental) => <span title={localTime(rental.statusSince)}>{relativeTime(rental.statusSince, now)}</span>,
    },
    {
      name: 'reason',
      header: 'Reason',
      width: 'minmax(0, 1.3fr)',
      cell: (rental) => <ReasonCell rental={rental} />,
    },
  ]
}

/** While a rental waits for its engine, the last error of the engine is the reason. */
function ReasonCell({ rental }: { rental: AnyRental }) {
  if (rental.statusReason !== null) return rental.statusReason.replaceAll('_', ' ')
  if (rental.lastError === null) return '—'
  return (
    <span className="text-bad" title={`${localTime(rental.lastErrorAt)}: ${rental.lastError}`}>
      {rental.lastError}
    </span>
  )
}

function RentalName({ rental }: { rental: AnyRental }) {
  return (
    <span title={`Rental ${rental.id}`}>
      {rental.name} <span className="text-muted">#{rental.id}</span>
    </span>
  )
}

function AccountLink({ rental }: { rental: AnyRental }) {
  return (
    <TextLink to="/operator/accounts/$id" params={{ id: rental.accountId }}>
      {rental.accountName}
    </TextLink>
  )
}
