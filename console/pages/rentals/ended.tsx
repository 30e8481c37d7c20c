/** Ended machines of every kind, page by page. */
import { useInfiniteQuery, type InfiniteData } from '@tanstack/react-query'
import type { Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { money } from '../../../src/view/money.ts'
import { machineOf, type OwnMachine } from '../../../src/view/own-machine.ts'
import { rentalKindLabels, rentalReasonSentence } from '../../../src/view/rental.ts'
import { call } from '../../api/query.ts'
import { textColumn, timeColumn, type Columns } from '../../list/column.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { VirtualTable } from '../../ui/virtual-table.tsx'
import { MachineLink } from './machine-table.tsx'

export function EndedRentals() {
  const ended = useEndedPages()
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
        rows={ended.data.pages.flatMap((page) => page.rentals.map(machineOf))}
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

const PAGE_ROWS = 50
type RentalPage = Reply<'listRentals'>

function useEndedPages() {
  return useInfiniteQuery<RentalPage, ClientError, InfiniteData<RentalPage, string>, unknown[], string>({
    queryKey: ['listRentals', { ended: 'only' }],
    initialPageParam: '',
    queryFn: ({ pageParam, signal }) =>
      call('listRentals', {
        query: { ended: 'only', limit: PAGE_ROWS, ...(pageParam === '' ? {} : { cursor: pageParam }) },
        signal,
      }),
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
  })
}

const columns: Columns<OwnMachine> = [
  textColumn('Name', (machine) => <MachineLink machine={machine} />, { width: 'minmax(0, 2fr)' }),
  textColumn('Machine', ({ gpus, kind }) => `${gpus}, ${rentalKindLabels[kind]}`, { width: 'minmax(0, 2fr)' }),
  timeColumn('Ended', 'terminatedAt', { width: 'minmax(11rem, 1fr)' }),
  textColumn('Reason', ({ reason }) => (reason === null ? '—' : rentalReasonSentence(reason)), {
    width: 'minmax(0, 2fr)',
  }),
  textColumn('Cost', ({ costSoFar }) => money(costSoFar), { align: 'right' }),
]
