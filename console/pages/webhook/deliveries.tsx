/** Deliveries of a webhook, newest first. */
import type { Reply } from '../../../src/client/client.ts'
import { limits } from '../../../src/base/limits.ts'
import { localTime, relativeTime } from '../../../src/view/time.ts'
import type { Tone } from '../../../src/view/tone.ts'
import { useAction, useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { useNow } from '../../ui/now.ts'
import { Pager, usePages } from '../../ui/pager.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'

type Delivery = Reply<'listWebhookDeliveries'>['deliveries'][number]

const PAGE_ROWS = 25
const EVERY_MS = 2_000

export function Deliveries({ webhookId }: { webhookId: string }) {
  const pages = usePages()
  const { cursor } = pages
  const now = useNow()
  const deliveries = useCall(
    'listWebhookDeliveries',
    { params: { id: webhookId }, query: { limit: PAGE_ROWS, ...(cursor === undefined ? {} : { cursor }) } },
    { everyMs: EVERY_MS },
  )
  return (
    <Card title="Deliveries">
      <Answer of={deliveries} skeleton={<Skeleton rows={5} />}>
        {({ deliveries: rows, nextCursor }) => (
          <>
            <Table
              label="Deliveries"
              columns={columnsAt(now)}
              rows={rows}
              rowKey={(one) => one.id}
              empty={
                <Empty title="No deliveries yet">
                  Events are delivered as they happen. Send a test event to check your server.
                </Empty>
              }
            />
            <Pager pages={pages} nextCursor={nextCursor} />
          </>
        )}
      </Answer>
    </Card>
  )
}

function columnsAt(now: number): ReadonlyArray<Column<Delivery>> {
  return [
    {
      name: 'event',
      header: 'Event',
      cell: (one) => <span className="font-mono whitespace-nowrap">{one.eventType}</span>,
    },
    { name: 'state', header: 'State', cell: (one) => <State delivery={one} /> },
    { name: 'answer', header: 'Response', cell: (one) => <LastAnswer delivery={one} /> },
    {
      name: 'attempts',
      header: 'Attempts',
      align: 'right',
      wideOnly: true,
      cell: (one) => `${one.attempts} of ${limits.webhookAttempts}`,
    },
    {
      name: 'at',
      header: 'Created',
      cell: (one) => (
        <span className="whitespace-nowrap" title={localTime(one.createdAt)}>
          {relativeTime(one.createdAt, now)}
        </span>
      ),
    },
    {
      name: 'next',
      header: 'Next attempt',
      wideOnly: true,
      cell: (one) => (
        <span className="whitespace-nowrap">
          {one.nextAttemptAt === null ? '—' : relativeTime(one.nextAttemptAt, now)}
        </span>
      ),
    },
    {
      name: 'actions',
      header: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (one) => <RedeliverButton delivery={one} />,
    },
  ]
}

function State({ delivery }: { delivery: Delivery }) {
  const isRetried = delivery.state === 'pending' && delivery.attempts > 0
  const { tone, word } = isRetried ? retried : states[delivery.state]
  return <Badge tone={tone}>{word}</Badge>
}

const retried = { tone: 'warn', word: 'Retrying' } as const
const states = {
  pending: { tone: 'info', word: 'Pending' },
  delivered: { tone: 'good', word: 'Delivered' },
  failed: { tone: 'bad', word: 'Failed' },
} as const satisfies Record<Delivery['state'], { tone: Tone; word: string }>

function LastAnswer({ delivery }: { delivery: Delivery }) {
  const { lastStatus, lastError } = delivery
  if (lastError !== null) return <span className="block min-w-32">{lastError}</span>
  return lastStatus === null ? (
    <span className="text-muted">—</span>
  ) : (
    <span className="tabular-nums">{lastStatus}</span>
  )
}

function RedeliverButton({ delivery }: { delivery: Delivery }) {
  const redeliver = useAction('redeliver', ['listWebhookDeliveries'])
  const send = (): void =>
    redeliver.mutate(
      { params: { id: delivery.id } },
      { onSuccess: () => toast('Redelivery scheduled'), onError: (error) => toast(error.message, 'bad') },
    )
  return (
    <Button busy={redeliver.isPending} onClick={send} aria-label={`Redeliver ${delivery.eventType}`}>
      Redeliver
    </Button>
  )
}
