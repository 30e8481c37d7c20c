/** Current and past rentals of an account, newest first. */
import type { Reply } from '../../../src/client/client.ts'
import { count, number } from '../../../src/view/number.ts'
import { rentalKindLabels } from '../../../src/view/rental.ts'
import { localTime } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { RentalBadge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table, type Column } from '../../ui/table.tsx'

const RENTALS_SHOWN = 100
const RENTALS_EVERY_MS = 10_000

type Rental = Reply<'listAllRentals'>['rentals'][number]

interface AccountRentalsProps {
  readonly accountId: string
  readonly onRefund: (rentalId: number) => void
}

export function AccountRentals({ accountId, onRefund }: AccountRentalsProps) {
  const rentals = useCall(
    'listAllRentals',
    { query: { accountId, limit: RENTALS_SHOWN } },
    { everyMs: RENTALS_EVERY_MS },
  )
  return (
    <section aria-labelledby="rentals" className="flex flex-col gap-3">
      <h2 id="rentals" className="text-base font-semibold">
        Rentals
      </h2>
      <Answer of={rentals} skeleton={<Skeleton rows={3} />}>
        {(page) => (
          <>
            <Table
              label="Rentals of the account"
              columns={columnsWith(onRefund)}
              rows={page.rentals}
              rowKey={(rental) => rental.id}
              empty={<p className="text-sm text-muted">No rentals yet.</p>}
            />
            {page.nextCursor !== null && (
              <p className="text-sm text-muted">Showing the newest {count(page.rentals.length, 'rental')}.</p>
            )}
          </>
        )}
      </Answer>
    </section>
  )
}

function columnsWith(onRefund: (rentalId: number) => void): ReadonlyArray<Column<Rental>> {
  return [
    { name: 'id', header: 'Rental', cell: (rental) => rental.id },
    { name: 'name', header: 'Name', cell: (rental) => <span className="whitespace-nowrap">{rental.name}</span> },
    { name: 'kind', header: 'Kind', wideOnly: true, cell: (rental) => rentalKindLabels[rental.kind] },
    { name: 'region', header: 'Region', wideOnly: true, cell: (rental) => rental.region },
    { name: 'gpus', header: 'GPUs', align: 'right', cell: (rental) => number(rental.gpuCount) },
    { name: 'status', header: 'Status', cell: (rental) => <RentalBadge status={rental.status} /> },
    {
      name: 'since',
      header: 'Since',
      wideOnly: true,
      cell: (rental) => <span className="whitespace-nowrap">{localTime(rental.statusSince)}</span>,
    },
    {
      name: 'actions',
      header: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (rental) => (
        <Button aria-label={`Refund rental ${rental.id}`} onClick={() => onRefund(rental.id)}>
          Refund
        </Button>
      ),
    },
  ]
}
