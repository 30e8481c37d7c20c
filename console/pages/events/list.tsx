/** Events in a table, with links to their subjects. */
import type { ReactNode } from 'react'
import type { EventRecord } from '../../../src/contract/event.ts'
import { localTime, relativeTime } from '../../../src/view/time.ts'
import { eventDetail, eventSubject, eventTitle, eventTone } from '../../../src/view/event.ts'
import { badgeColumn, textColumn, type Columns } from '../../list/column.tsx'
import { TextLink } from '../../ui/button.tsx'
import { useNow } from '../../ui/now.ts'
import { Table } from '../../ui/table.tsx'

interface EventListProps {
  readonly events: readonly EventRecord[]
  readonly label: string
  readonly empty: ReactNode
  /** Set on the page of the subject itself. */
  readonly hideSubject?: boolean
}

export function EventList({ events, label, empty, hideSubject = false }: EventListProps) {
  const columns = hideSubject ? allColumns.filter(({ name }) => name !== 'Subject') : allColumns
  return <Table label={label} columns={columns} rows={events} rowKey="id" empty={empty} />
}

const allColumns: Columns<EventRecord> = [
  textColumn('Time', ({ at }) => <When at={at} />),
  badgeColumn('Event', ({ type }) => [eventTitle(type), eventTone(type)]),
  textColumn('Subject', (event) => <Subject event={event} />),
  textColumn('Details', eventDetail, { className: 'text-muted' }),
]

function When({ at }: { at: string }) {
  // The server's clock may be a little ahead of this one.
  const now = useNow()
  return (
    <time dateTime={at} title={localTime(at)} className="whitespace-nowrap text-muted">
      {relativeTime(at, Math.max(now, Date.parse(at)))}
    </time>
  )
}

function Subject({ event }: { event: EventRecord }) {
  const { subject } = event
  const text = <span className="whitespace-nowrap">{eventSubject(event)}</span>
  switch (subject.kind) {
    case 'rental':
      return (
        <TextLink to="/rentals/$id" params={{ id: subject.id }}>
          {text}
        </TextLink>
      )
    case 'balance':
      return <TextLink to="/billing">{text}</TextLink>
    case 'volume':
      return <TextLink to="/volumes">{text}</TextLink>
    default:
      return text
  }
}
