/** The history of a deployment: scaling decisions, replicas, rollouts. */
import { eventDetail, eventTitle, eventTone } from '../../../src/view/event.ts'
import { localTime } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Card } from '../../ui/card.tsx'

const ROWS = 30
const MAX_DETAIL_CHARS = 140

export function History({ deploymentId }: { deploymentId: string }) {
  const events = useCall('listEvents', { query: { subject: `deployment:${deploymentId}`, limit: ROWS } })
  return (
    <Card title="History">
      <Answer of={events}>
        {({ events: list }) =>
          list.length === 0 ? (
            <p className="text-sm text-muted">Nothing yet.</p>
          ) : (
            <ol className="flex max-h-96 flex-col gap-2.5 overflow-y-auto" tabIndex={0} aria-label="History">
              {list.map((event) => (
                <li key={event.id} className="flex flex-col gap-0.5 text-sm">
                  <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
                    <Badge tone={eventTone(event.type)}>{eventTitle(event.type)}</Badge>
                    <time dateTime={event.at} className="text-muted">
                      {localTime(event.at)}
                    </time>
                  </span>
                  {eventDetail(event) !== '' && (
                    <span className="break-words">{eventDetail(event).slice(0, MAX_DETAIL_CHARS)}</span>
                  )}
                </li>
              ))}
            </ol>
          )
        }
      </Answer>
    </Card>
  )
}
