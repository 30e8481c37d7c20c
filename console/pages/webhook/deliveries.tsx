/** Deliveries of a webhook, newest first. */
import type { Reply } from '../../../src/client/client.ts'
import { limits } from '../../../src/base/limits.ts'
import type { Tone } from '../../../src/view/tone.ts'
import { CallButton } from '../../form/dialog.tsx'
import { actionsColumn, agoColumn, badgeColumn, textColumn, type Columns } from '../../list/column.tsx'
import { PagedTable } from '../../list/table.tsx'
import { Card } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'

type Delivery = Reply<'listWebhookDeliveries'>['deliveries'][number]

const PAGE_ROWS = 25
const EVERY_MS = 2_000

export function Deliveries({ webhookId }: { webhookId: string }) {
  return (
    <Card title="Deliveries">
      <PagedTable
        label="Deliveries"
        call="listWebhookDeliveries"
        params={{ id: webhookId }}
        pageRows={PAGE_ROWS}
        everyMs={EVERY_MS}
        rows={({ deliveries }) => deliveries}
        rowKey="id"
        columns={columns}
        skeleton={5}
        empty={
          <Empty title="No deliveries yet">
            Events are delivered as they happen. Send a test event to check your server.
          </Empty>
        }
      />
    </Card>
  )
}

const states = {
  pending: ['Pending', 'info'],
  delivered: ['Delivered', 'good'],
  failed: ['Failed', 'bad'],
} as const satisfies Record<Delivery['state'], readonly [string, Tone]>

const columns: Columns<Delivery> = [
  textColumn('Event', 'eventType', { className: 'font-mono whitespace-nowrap' }),
  badgeColumn('State', ({ state, attempts }) =>
    state === 'pending' && attempts > 0 ? ['Retrying', 'warn'] : states[state],
  ),
  textColumn('Response', ({ lastError, lastStatus }) => lastError ?? lastStatus, { className: 'block min-w-32' }),
  textColumn('Attempts', ({ attempts }) => `${attempts} of ${limits.webhookAttempts}`, {
    align: 'right',
    wideOnly: true,
  }),
  agoColumn('Created', 'createdAt'),
  agoColumn('Next attempt', 'nextAttemptAt', { wideOnly: true }),
  actionsColumn(({ id, eventType }) => (
    <CallButton
      operation="redeliver"
      input={{ params: { id } }}
      refreshes={['listWebhookDeliveries']}
      done="Redelivery scheduled"
      aria-label={`Redeliver ${eventType}`}
    >
      Redeliver
    </CallButton>
  )),
]
