/** Ended machines, from their last events: the API has no list of them for every kind. */
import type { EventRecord } from '../../../src/contract/event.ts'
import type { RentalKind } from '../../../src/domain/rental.ts'
import { rentalKindLabels, rentalReasonSentence } from '../../../src/view/rental.ts'
import { textColumn, timeColumn, type Columns } from '../../list/column.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { VirtualTable } from '../../ui/virtual-table.tsx'
import { useEventPages } from '../events/pages.ts'
import { MachineLink } from './machine-table.tsx'

export function EndedRentals() {
  const ended = useEventPages('rental.terminated')
  if (ended.data === undefined) {
    return ended.error === null ? (
      <Skeleton rows={6} />
    ) : (
      <ErrorNotice error={ended.error} onRetry={() => void ended.refetch()} isRead />
    )
  }
  return (
    <div className="flex flex-col gap-4">
      <VirtualTable
        label="Ended rentals"
        columns={columns}
        rows={ended.data.pages.flatMap((page) => page.events)}
        rowKey="id"
        empty={
          <Empty title="No ended rentals" action={<ButtonLink to="/rentals">Current rentals</ButtonLink>}>
            Terminated machines are listed here.
          </Empty>
        }
      />
      {ended.hasNextPage && (
        <Button className="self-center" busy={ended.isFetchingNextPage} onClick={() => void ended.fetchNextPage()}>
          Show older rentals
        </Button>
      )}
    </div>
  )
}

const columns: Columns<EventRecord> = [
  textColumn('Name', (event) => <MachineLink machine={machineOf(event)} />, { width: 'minmax(0, 2fr)' }),
  textColumn('Kind', (event) => rentalKindLabels[machineOf(event).kind]),
  timeColumn('Ended', 'at'),
  textColumn('Reason', ({ data }) => reasonOf(data['reason']), { width: 'minmax(0, 2fr)' }),
]

function reasonOf(reason: unknown): string {
  return typeof reason === 'string' ? rentalReasonSentence(reason) : '—'
}

function machineOf({ subject, data }: EventRecord): {
  readonly kind: RentalKind
  readonly id: string
  readonly name: string
  readonly label: string | null
} {
  const kind = data['kind'] === 'container' || data['kind'] === 'bare-metal' ? data['kind'] : 'virtual-machine'
  const name = typeof data['name'] === 'string' ? data['name'] : subject.id
  const label = typeof data['label'] === 'string' ? data['label'] : null
  return { kind, id: kind === 'container' ? name : subject.id, name, label }
}
