/** The newest notifications, behind the bell. */
import { Link } from '@tanstack/react-router'
import { useAction, useCall } from '../api/query.ts'
import { Ago } from '../list/column.tsx'
import { NotificationLink, SeverityMark } from '../pages/notifications/parts.tsx'
import { Button } from '../ui/button.tsx'

export function LatestNotifications({ limit }: { limit: number }) {
  const { data } = useCall('listNotifications', { query: { limit } })
  const read = useAction('readNotifications', ['listNotifications'])
  const [newest] = data?.notifications ?? []
  if (data === undefined) return <p className="text-sm text-muted">Loading …</p>
  return (
    <div className="flex flex-col gap-3">
      {newest === undefined ? (
        <p className="text-sm text-muted">No notifications yet.</p>
      ) : (
        <ul className="flex flex-col gap-2 text-sm">
          {data.notifications.map((one) => (
            <li key={one.id}>
              <SeverityMark notification={one} /> <NotificationLink notification={one} />
              <span className="block text-muted">
                <Ago at={one.at} />
              </span>
            </li>
          ))}
        </ul>
      )}
      <div className="flex items-center justify-between gap-2">
        <Link to="/notifications" className="text-sm text-accent hover:underline">
          All notifications
        </Link>
        {newest !== undefined && data.unread > 0 && (
          <Button look="quiet" busy={read.isPending} onClick={() => read.mutate({ body: { upTo: newest.id } })}>
            Mark all as read
          </Button>
        )}
      </div>
    </div>
  )
}
