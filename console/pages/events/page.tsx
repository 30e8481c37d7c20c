/** Everything that has happened to the account, newest first. What happens while it is open comes by itself. */
import { getRouteApi } from '@tanstack/react-router'
import { eventTypes, type EventType } from '../../../src/contract/event.ts'
import { eventTitle } from '../../../src/view/event.ts'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { SelectField } from '../../ui/field.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { EventList } from './list.tsx'
import { useEventPages } from './pages.ts'

const route = getRouteApi('/shell/events')

export function EventsPage() {
  const { type } = route.useSearch()
  const navigate = route.useNavigate()
  const events = useEventPages(type)
  const all = events.data?.pages.flatMap((page) => page.events)
  return (
    <Page intro="What has happened, newest first. The list is live: it needs no reload.">
      <SelectField
        label="Kind"
        className="max-w-xs"
        value={type ?? ''}
        choices={[{ value: '', label: 'All events' }, ...choices]}
        onChange={(event) => {
          const chosen = event.target.value
          void navigate({ search: chosen === '' ? {} : { type: chosen as EventType }, replace: true })
        }}
      />
      {all !== undefined ? (
        <>
          <EventList
            label="Events"
            events={all}
            empty={
              type === undefined ? (
                <Empty title="Nothing has happened yet" action={<ButtonLink to="/rent">Rent a machine</ButtonLink>}>
                  Whatever you rent, pay or change is told here.
                </Empty>
              ) : (
                <Empty
                  title="There is no event of this kind"
                  action={<Button onClick={() => void navigate({ search: {} })}>Show all events</Button>}
                />
              )
            }
          />
          {events.hasNextPage && (
            <Button
              className="self-center"
              busy={events.isFetchingNextPage}
              onClick={() => void events.fetchNextPage()}
            >
              Show older events
            </Button>
          )}
        </>
      ) : events.error !== null ? (
        <ErrorNotice error={events.error} onRetry={() => void events.refetch()} isRead />
      ) : (
        <Skeleton rows={8} />
      )}
    </Page>
  )
}

const choices = (Object.keys(eventTypes) as EventType[]).map((type) => ({ value: type, label: eventTitle(type) }))
