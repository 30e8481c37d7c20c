/** Parts shared by the list of webhooks and the page of one. */
import type { Reply } from '../../../src/client/client.ts'
import type { EventType } from '../../../src/contract/event-type.ts'
import { count } from '../../../src/view/number.ts'
import { CallButton } from '../../form/dialog.tsx'
import { Badge } from '../../ui/badge.tsx'
import { SecretOnce } from '../../ui/secret-once.tsx'

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

interface SigningSecretProps {
  readonly title: string
  readonly secret: string
  /** Whether the secret replaces another one, which stays valid for a while. */
  readonly overlap?: boolean
  readonly onClose: () => void
}

export function SigningSecret({ title, secret, overlap = false, onClose }: SigningSecretProps) {
  return (
    <SecretOnce title={title} label="Signing secret" secret={secret} onClose={onClose}>
      <strong>This secret is shown only once.</strong> Your server uses it to verify deliveries (Standard Webhooks). If
      you lose it, rotate the secret.
      {overlap && ' The old secret stays valid for 24 hours.'}
    </SecretOnce>
  )
}
