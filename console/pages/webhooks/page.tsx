/** Webhooks: events of the account, pushed to addresses of its choice. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { localDate, localTime } from '../../../src/view/time.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { WebhookForm } from '../webhook/form.tsx'
import { EventNames, WebhookState, WebhookSwitch } from '../webhook/parts.tsx'

type Webhook = Reply<'listWebhooks'>['webhooks'][number]

const columns: ReadonlyArray<Column<Webhook>> = [
  {
    name: 'url',
    header: 'Address',
    cell: (hook) => (
      <div className="min-w-48">
        <TextLink to="/webhooks/$id" params={{ id: hook.id }} className="break-all">
          {hook.url}
        </TextLink>
        {hook.description !== null && hook.description !== '' && <p className="text-muted">{hook.description}</p>}
      </div>
    ),
  },
  { name: 'state', header: 'State', cell: (hook) => <WebhookState webhook={hook} /> },
  { name: 'events', header: 'Events', wideOnly: true, cell: (hook) => <EventNames types={hook.eventTypes} /> },
  {
    name: 'created',
    header: 'Made',
    wideOnly: true,
    cell: (hook) => (
      <span className="whitespace-nowrap" title={localTime(hook.createdAt)}>
        {localDate(hook.createdAt)}
      </span>
    ),
  },
  {
    name: 'actions',
    header: <span className="sr-only">Actions</span>,
    align: 'right',
    cell: (hook) => <WebhookSwitch webhook={hook} />,
  },
]

export function WebhooksPage() {
  const mayManage = useMay('keys')
  const webhooks = useCall('listWebhooks')
  const [isCreating, setCreating] = useState(false)
  const create = (
    <Button
      look="primary"
      disabledReason={mayManage ? undefined : 'Your key lacks the scope “keys”'}
      onClick={() => setCreating(true)}
    >
      Add a webhook
    </Button>
  )
  return (
    <Page
      intro="Events are sent to your server as they happen, signed, and again for about 20 hours until it answers."
      actions={create}
    >
      <Answer of={webhooks}>
        {({ webhooks: rows }) => (
          <Table
            label="Webhooks"
            columns={columns}
            rows={rows}
            rowKey={(hook) => hook.id}
            empty={
              <Empty title="There is no webhook yet" action={create}>
                Let your server know when a machine runs or fails, a volume is ready or the balance runs low.
              </Empty>
            }
          />
        )}
      </Answer>
      {isCreating && <WebhookForm onClose={() => setCreating(false)} />}
    </Page>
  )
}
