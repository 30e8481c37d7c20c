/** The account's events, newest first, live. */
import { getRouteApi } from '@tanstack/react-router'
import { eventTypes, type EventType } from '../../../src/contract/event-type.ts'
import { eventTitle } from '../../../src/view/event.ts'
import { choicesOf, FilterBar } from '../../list/filter.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { EventList } from './list.tsx'
import { useEventPages } from './pages.ts'

const route = getRouteApi('/shell/events')

export function EventsPage() {
  const parameters = route.useSearch()
  const type = types.find((one) => one === parameters.type)
  const search = type === undefined ? {} : { type }
  const navigate = route.useNavigate()
  const events = useEventPages(type)
  const all = events.data?.pages.flatMap((page) => page.events)
  return (
    <Page intro="Everything that happened in your account, newest first. Updates live.">
      <FilterBar
        label="Events"
        fields={[{ name: 'type', label: 'Type', choices, any: 'All events' }]}
        search={search}
        onChange={(change) => void navigate({ search: change, replace: true })}
      />
      {all !== undefined ? (
        <>
          <EventList
            label="Events"
            events={all}
            empty={
              type === undefined ? (
                <Empty title="No events yet" action={<ButtonLink to="/rent">Rent a machine</ButtonLink>}>
                  Orders, payments and changes appear here.
                </Empty>
              ) : (
                <Empty
                  title="No events match"
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

const types = Object.keys(eventTypes) as EventType[]
const choices = choicesOf(types, eventTitle)
