/** Webhooks: the account's events, pushed to URLs. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { localDate, localTime } from '../../../src/view/time.ts'
import { missingScope, useMay } from '../../api/me.ts'
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
    header: 'URL',
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
    header: 'Created',
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
      disabledReason={mayManage ? undefined : missingScope('keys')}
      onClick={() => setCreating(true)}
    >
      Add webhook
    </Button>
  )
  return (
    <Page
      intro="Sends signed events to your server as they happen, and retries failed deliveries for about 20 hours."
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
              <Empty title="No webhooks yet" action={create}>
                Get notified when a machine starts or fails, a volume is ready, or your balance is low.
              </Empty>
            }
          />
        )}
      </Answer>
      {isCreating && <WebhookForm onClose={() => setCreating(false)} />}
    </Page>
  )
}
