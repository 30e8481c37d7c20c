/** Live events of all accounts, newest first. */
import { eventTypes } from '../../../src/contract/event.ts'
import { localTime, relativeTime } from '../../../src/view/time.ts'
import type { Reply } from '../../../src/client/client.ts'
import { eventDetail } from '../../../src/view/event.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { TextLink } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { useNow } from '../../ui/now.ts'
import { Table, type Column } from '../../ui/table.tsx'

const SHOWN = 30

type NamedEvent = Reply<'listAllEvents'>['events'][number]

export function TrafficEvents() {
  const events = useCall('listAllEvents', { query: { limit: SHOWN } })
  const columns = columnsOf(useNow())
  return (
    <Card title="Events">
      <Answer of={events} skeleton={<div className="h-96" />}>
        {(reply) => (
          <Table
            label="Events of all accounts"
            columns={columns}
            rows={reply.events}
            rowKey={(event) => event.id}
            empty={<Empty title="No events yet">Orders, charges and changes of all accounts appear here.</Empty>}
          />
        )}
      </Answer>
    </Card>
  )
}

function columnsOf(now: number): ReadonlyArray<Column<NamedEvent>> {
  return [
    {
      name: 'at',
      header: 'Time',
      cell: (event) => (
        <span className="whitespace-nowrap" title={localTime(event.at)}>
          {relativeTime(event.at, now)}
        </span>
      ),
    },
    {
      name: 'account',
      header: 'Account',
      cell: (event) => (
        <TextLink to="/operator/accounts/$id" params={{ id: event.accountId }}>
          {event.accountName}
        </TextLink>
      ),
    },
    { name: 'type', header: 'Event', cell: (event) => <span className="font-mono">{event.type}</span> },
    {
      name: 'subject',
      header: 'Subject',
      cell: (event) => (
        <span className="whitespace-nowrap">
          {event.subject.kind} {event.subject.id}
        </span>
      ),
    },
    {
      name: 'detail',
      header: 'Detail',
      wideOnly: true,
      cell: (event) => eventDetail(event) || eventTypes[event.type],
    },
  ]
}
