/** Rentals of all accounts. Stuck rentals come first, with the next step. */
import { getRouteApi } from '@tanstack/react-router'
import { rentalStates, rentalStateTable } from '../../../src/contract/rental-state.ts'
import { count } from '../../../src/view/number.ts'
import { rentalKindLabels } from '../../../src/view/rental.ts'
import { localTime } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { accountColumn, agoColumn, badgeColumn, numberColumn, textColumn, type Columns } from '../../list/column.tsx'
import { choicesOf, FilterBar } from '../../list/filter.tsx'
import { PagedTable } from '../../list/table.tsx'
import { Answer } from '../../ui/answer.tsx'
import { TextLink } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Table } from '../../ui/table.tsx'
import { AccountField } from './account-field.tsx'
import { NumberedName, type AnyRental } from './read.tsx'

const route = getRouteApi('/shell/operator/fleet')
const STUCK_SHOWN = 100

export function FleetRentals() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const change = (changed: Partial<typeof search>): void =>
    void navigate({ search: (before) => ({ ...before, ...changed }), replace: true })
  return (
    <div className="flex flex-col gap-4">
      <StuckRentals />
      <FilterBar
        label="Rentals"
        fields={[{ name: 'rental', label: 'State', choices: choicesOf(rentalStates) }]}
        search={search}
        onChange={change}
      >
        <AccountField value={search.account ?? ''} onChange={(id) => change({ account: id || undefined })} />
      </FilterBar>
      <PagedTable
        label="Rentals of all accounts"
        call="listAllRentals"
        query={{ status: search.rental, accountId: search.account }}
        rows={({ rentals }) => rentals}
        rowKey="id"
        columns={columns}
        virtual
        empty={<Empty title="No rentals match">Rentals of all accounts are listed here.</Empty>}
      />
    </div>
  )
}

function StuckRentals() {
  const stuck = useCall('listAllRentals', { query: { stuck: true, limit: STUCK_SHOWN } })
  return (
    <Answer of={stuck} skeleton={<></>}>
      {({ rentals }) =>
        rentals.length > 0 && (
          <Card title={count(rentals.length, 'stuck rental')}>
            <Table label="Stuck rentals" columns={stuckColumns} rows={rentals} rowKey="id" empty={null} />
          </Card>
        )
      }
    </Answer>
  )
}

const stuckColumns: Columns<AnyRental> = [
  textColumn('Rental', ({ id, name }) => <NumberedName noun="Rental" id={id} name={name} />),
  accountColumn(),
  badgeColumn('State', ({ status }) => [status, rentalStateTable[status].tone]),
  agoColumn('Stuck since', 'stuckSince'),
  textColumn('Next step', (rental) => <NextStep rental={rental} />),
]

/** The customer is not charged; the operator has to remove the machine at the provider. */
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

const columns: Columns<AnyRental> = [
  textColumn('Rental', ({ id, name }) => <NumberedName noun="Rental" id={id} name={name} />, {
    width: 'minmax(0, 1.4fr)',
  }),
  accountColumn(),
  textColumn('Kind', ({ kind }) => rentalKindLabels[kind], { width: '8rem' }),
  numberColumn('GPUs', 'gpuCount', { width: '4rem' }),
  textColumn('Region', 'region'),
  textColumn('Engine', 'driver', { width: '5.5rem' }),
  badgeColumn('State', ({ status }) => [status, rentalStateTable[status].tone], { width: '8rem' }),
  agoColumn('Since', 'statusSince', { width: '8.5rem' }),
  textColumn('Reason', (rental) => <ReasonCell rental={rental} />, { width: 'minmax(0, 1.3fr)' }),
]

/** The reason of the state. While a rental waits for its provider, that is the provider's last error. */
function ReasonCell({ rental }: { rental: AnyRental }) {
  if (rental.statusReason !== null) return rental.statusReason.replaceAll('_', ' ')
  if (rental.lastError === null) return '—'
  return (
    <span className="text-bad" title={`${localTime(rental.lastErrorAt)}: ${rental.lastError}`}>
      {rental.lastError}
    </span>
  )
}
