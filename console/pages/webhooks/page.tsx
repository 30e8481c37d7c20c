/** Webhooks: the account's events, pushed to URLs. */
import type { Reply } from '../../../src/client/client.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { actionsColumn, dateColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { WebhookForm } from '../webhook/form.tsx'
import { EventNames, WebhookState, WebhookSwitch } from '../webhook/parts.tsx'

type Webhook = Reply<'listWebhooks'>['webhooks'][number]

const columns: Columns<Webhook> = [
  textColumn('URL', ({ id, url, description }) => (
    <div className="min-w-48">
      <TextLink to="/webhooks/$id" params={{ id }} className="break-all">
        {url}
      </TextLink>
      {description !== null && description !== '' && <p className="text-muted">{description}</p>}
    </div>
  )),
  textColumn('State', (hook) => <WebhookState webhook={hook} />),
  textColumn('Events', (hook) => <EventNames types={hook.eventTypes} />, { wideOnly: true }),
  dateColumn('Created', 'createdAt', { wideOnly: true }),
  actionsColumn((hook) => <WebhookSwitch webhook={hook} />),
]

export function WebhooksPage() {
  const mayManage = useMay('keys')
  const dialog = useDialog()
  const create = (
    <Button
      look="primary"
      disabledReason={mayManage ? undefined : missingScope('keys')}
      onClick={() => dialog.open((close) => <WebhookForm onClose={close} />)}
    >
      Add webhook
    </Button>
  )
  return (
    <Page
      intro="Sends signed events to your server as they happen, and retries failed deliveries for about 20 hours."
      actions={create}
    >
      <ListTable
        label="Webhooks"
        call="listWebhooks"
        rows={({ webhooks }) => webhooks}
        rowKey="id"
        columns={columns}
        empty={
          <Empty title="No webhooks yet" action={create}>
            Get notified when a machine starts or fails, a volume is ready, or your balance is low.
          </Empty>
        }
      />
      {dialog.shown}
    </Page>
  )
}
