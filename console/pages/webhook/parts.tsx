/** Parts shared by the list of webhooks and the page of one. */
import type { Reply } from '../../../src/client/client.ts'
import type { EventType } from '../../../src/contract/event-type.ts'
import { count } from '../../../src/view/number.ts'
import { CallButton } from '../../form/dialog.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { CopyLine } from '../../ui/copy.tsx'
import { DialogButtons } from '../../ui/dialog.tsx'

type Webhook = Reply<'listWebhooks'>['webhooks'][number]

const reasons: Readonly<Record<string, string>> = {
  gone: 'Disabled: the URL answered 410 Gone',
  failing: 'Disabled: deliveries kept failing',
}

export function WebhookState({ webhook }: { webhook: Webhook }) {
  if (webhook.enabled) return <Badge tone="good">Enabled</Badge>
  const { disabledReason } = webhook
  return disabledReason === null ? (
    <Badge tone="plain">Disabled</Badge>
  ) : (
    <Badge tone="bad">{reasons[disabledReason] ?? `Disabled: ${disabledReason}`}</Badge>
  )
}

const NAMED_TYPES = 3

export function EventNames({ types }: { types: readonly EventType[] | null }) {
  if (types === null) return 'All'
  return (
    <span title={types.join(', ')}>{types.length <= NAMED_TYPES ? types.join(', ') : count(types.length, 'type')}</span>
  )
}

export function WebhookSwitch({ webhook: { id, url, enabled } }: { webhook: Webhook }) {
  const verb = enabled ? 'Disable' : 'Enable'
  return (
    <CallButton
      operation="changeWebhook"
      input={{ params: { id }, body: { enabled: !enabled } }}
      refreshes={['listWebhooks', 'listWebhookDeliveries']}
      done={enabled ? 'Webhook disabled; pending deliveries were dropped' : 'Webhook enabled'}
      aria-label={`${verb} ${url}`}
    >
      {verb}
    </CallButton>
  )
}

/** Inside a dialog, after a secret was created. */
export function SecretOnce({ secret, overlap, onClose }: { secret: string; overlap: boolean; onClose: () => void }) {
  return (
    <div className="flex flex-col gap-4">
      <p className="rounded-md border border-warn bg-warn-soft px-4 py-3 text-sm">
        <strong>This secret is shown only once.</strong> Your server uses it to verify deliveries (Standard Webhooks).
        If you lose it, rotate the secret.
        {overlap && ' The old secret stays valid for 24 hours.'}
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
