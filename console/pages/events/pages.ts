/** Events, page by page. Refreshed when an event arrives. */
import { useInfiniteQuery, type InfiniteData, type UseInfiniteQueryResult } from '@tanstack/react-query'
import type { Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import type { EventType } from '../../../src/contract/event-type.ts'
import { call } from '../../api/query.ts'

const PAGE_EVENTS = 50

type EventPage = Reply<'listEvents'>

export function useEventPages(
  type: EventType | undefined,
): UseInfiniteQueryResult<InfiniteData<EventPage, string>, ClientError> {
  return useInfiniteQuery<EventPage, ClientError, InfiniteData<EventPage, string>, unknown[], string>({
    queryKey: ['listEvents', { inPages: true, type }],
    initialPageParam: '',
    queryFn: ({ pageParam, signal }) =>
      call('listEvents', {
        query: {
          limit: PAGE_EVENTS,
          ...(type === undefined ? {} : { type }),
          ...(pageParam === '' ? {} : { cursor: pageParam }),
        },
        signal,
      }),
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
  })
}
