/** Current and past rentals of an account, newest first. */
import type { Reply } from '../../../src/client/client.ts'
import { rentalStateTable } from '../../../src/contract/rental-state.ts'
import { rentalKindLabels } from '../../../src/view/rental.ts'
import { actionColumn, badgeColumn, numberColumn, textColumn, timeColumn, type Columns } from '../../list/column.tsx'
import { PagedTable } from '../../list/table.tsx'
import { Section } from '../../ui/card.tsx'

const RENTALS_EVERY_MS = 10_000

type Rental = Reply<'listAllRentals'>['rentals'][number]

interface AccountRentalsProps {
  readonly accountId: string
  readonly onRefund: (rentalId: number) => void
}

export function AccountRentals({ accountId, onRefund }: AccountRentalsProps) {
  return (
    <Section title="Rentals">
      <PagedTable
        label="Rentals of the account"
        call="listAllRentals"
        query={{ accountId }}
        everyMs={RENTALS_EVERY_MS}
        rows={({ rentals }) => rentals}
        rowKey="id"
        columns={[
          ...columns,
          actionColumn(
            'Refund',
            ({ id }: Rental) => `rental ${id}`,
            ({ id }) => onRefund(id),
          ),
        ]}
        skeleton={3}
        empty="No rentals yet."
      />
    </Section>
  )
}

const columns: Columns<Rental> = [
  textColumn('Rental', 'id'),
  textColumn('Name', 'name', { className: 'whitespace-nowrap' }),
  textColumn('Kind', ({ kind }) => rentalKindLabels[kind], { wideOnly: true }),
  textColumn('Region', 'region', { wideOnly: true }),
  numberColumn('GPUs', 'gpuCount'),
  badgeColumn('Status', ({ status }) => [status, rentalStateTable[status].tone]),
  timeColumn('Since', 'statusSince', { wideOnly: true }),
]
