/** Notifications, and the settings of where each kind is shown or sent. */
import { getRouteApi } from '@tanstack/react-router'
import type { Reply } from '../../../src/client/client.ts'
import { useAction } from '../../api/query.ts'
import { agoColumn, textColumn, type Columns } from '../../list/column.tsx'
import { PagedTable } from '../../list/table.tsx'
import { Button } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { NotificationLink, SeverityMark } from './parts.tsx'
import { NotificationSettings } from './settings.tsx'

const route = getRouteApi('/shell/notifications')

/** Notifications of operators raise no event. */
const EVERY_MS = 30_000

type Notification = Reply<'listNotifications'>['notifications'][number]

const tabs = { all: 'All', unread: 'Unread', settings: 'Settings' } as const

const columns: Columns<Notification> = [
  textColumn('Notification', (one) => (
    <div className="min-w-48">
      <SeverityMark notification={one} /> <NotificationLink notification={one} />
      <p className="text-muted">{one.text}</p>
    </div>
  )),
  agoColumn('Time', 'at'),
]

export function NotificationsPage() {
  const { tab = 'all' } = route.useSearch()
  const navigate = route.useNavigate()
  return (
    <Page intro="Low balance, budgets, failed machines and expiring terms. Kept for 90 days.">
      <Tabs
        label="Notifications"
        tabs={tabs}
        chosen={tab}
        onChoose={(next) => void navigate({ search: { tab: next }, replace: true })}
      >
        {tab === 'settings' ? <NotificationSettings /> : <List unread={tab === 'unread'} />}
      </Tabs>
    </Page>
  )
}

function List({ unread }: { unread: boolean }) {
  return (
    <PagedTable
      label="Notifications"
      call="listNotifications"
      query={unread ? { unread: true } : {}}
      everyMs={EVERY_MS}
      rows={({ notifications }) => notifications}
      rowKey="id"
      columns={columns}
      above={readAll}
      empty={
        unread ? (
          <Empty title="Nothing unread" />
        ) : (
          <Empty title="No notifications yet">You will see here when something needs your attention.</Empty>
        )
      }
    />
  )
}

function readAll({ unread, notifications }: Reply<'listNotifications'>) {
  return unread > 0 && <ReadAll newest={notifications[0]} />
}

function ReadAll({ newest }: { newest: Notification | undefined }) {
  const read = useAction('readNotifications', ['listNotifications'])
  if (newest === undefined) return null
  return (
    <div className="flex justify-end">
      <Button busy={read.isPending} onClick={() => read.mutate({ body: { upTo: newest.id } })}>
        Mark all as read
      </Button>
    </div>
  )
}
