/** Live events of all accounts, newest first. */
import { eventTypes } from '../../../src/contract/event-type.ts'
import type { Reply } from '../../../src/client/client.ts'
import { eventDetail } from '../../../src/view/event.ts'
import { accountColumn, agoColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Card } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'

const SHOWN = 30

export function TrafficEvents() {
  return (
    <Card title="Events">
      <ListTable
        label="Events of all accounts"
        call="listAllEvents"
        input={{ query: { limit: SHOWN } }}
        rows={({ events }) => events}
        rowKey="id"
        columns={columns}
        skeleton={<div className="h-96" />}
        empty={<Empty title="No events yet">Orders, charges and changes of all accounts appear here.</Empty>}
      />
    </Card>
  )
}

const columns: Columns<Reply<'listAllEvents'>['events'][number]> = [
  agoColumn('Time', 'at'),
  accountColumn(),
  textColumn('Event', 'type', { className: 'font-mono' }),
  textColumn('Subject', ({ subject }) => `${subject.kind} ${subject.id}`, { className: 'whitespace-nowrap' }),
  textColumn('Detail', (event) => eventDetail(event) || eventTypes[event.type], { wideOnly: true }),
]
