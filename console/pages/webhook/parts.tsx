/** What the list of webhooks and the page of one both show. */
import type { Reply } from '../../../src/client/client.ts'
import type { EventType } from '../../../src/contract/event.ts'
import { count } from '../../../src/view/number.ts'
import { useAction } from '../../api/query.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { CopyLine } from '../../ui/copy.tsx'
import { DialogButtons } from '../../ui/dialog.tsx'
import { toast } from '../../ui/toast.tsx'

type Webhook = Reply<'listWebhooks'>['webhooks'][number]

const reasons: Readonly<Record<string, string>> = {
  gone: 'Turned off: it answered 410, gone',
  failing: 'Turned off: nothing arrived for long',
}

export function WebhookState({ webhook }: { webhook: Webhook }) {
  if (webhook.enabled) return <Badge tone="good">On</Badge>
  const { disabledReason } = webhook
  return disabledReason === null ? (
    <Badge tone="plain">Off</Badge>
  ) : (
    <Badge tone="bad">{reasons[disabledReason] ?? `Turned off: ${disabledReason}`}</Badge>
  )
}

/** A few by name, many by number. */
const NAMED_TYPES = 3

export function EventNames({ types }: { types: readonly EventType[] | null }) {
  if (types === null) return 'All'
  return (
    <span title={types.join(', ')}>{types.length <= NAMED_TYPES ? types.join(', ') : count(types.length, 'type')}</span>
  )
}

export function WebhookSwitch({ webhook }: { webhook: Webhook }) {
  const change = useAction('changeWebhook', ['listWebhooks', 'listWebhookDeliveries'])
  const { enabled } = webhook
  const turn = (): void =>
    change.mutate(
      { params: { id: webhook.id }, body: { enabled: !enabled } },
      {
        onSuccess: () => toast(enabled ? 'Turned off; what waited is given up' : 'Turned on'),
        onError: (error) => toast(error.message, 'bad'),
      },
    )
  return (
    <Button busy={change.isPending} onClick={turn} aria-label={`Turn ${enabled ? 'off' : 'on'} ${webhook.url}`}>
      {enabled ? 'Turn off' : 'Turn on'}
    </Button>
  )
}

/** Inside a dialog, after a secret was made. */
export function SecretOnce({ secret, overlap, onClose }: { secret: string; overlap: boolean; onClose: () => void }) {
  return (
    <div className="flex flex-col gap-4">
      <p className="rounded-md border border-warn bg-warn-soft px-4 py-3 text-sm">
        <strong>It is shown this once.</strong> Give it to your server, which checks by it that a delivery comes from
        here (Standard Webhooks). If it is lost, make a new one.
        {overlap && ' For 24 hours the old secret signs beside the new one.'}
      </p>
      <CopyLine label="Signing secret" text={secret} />
      <DialogButtons>
        <Button look="primary" onClick={onClose}>
          I have copied it
        </Button>
      </DialogButtons>
    </div>
  )
}
