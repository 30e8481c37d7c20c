/** One webhook and its deliveries. Deliveries raise no events, so they are polled. */
import { getRouteApi } from '@tanstack/react-router'
import type { Reply } from '../../../src/client/client.ts'
import { localTime } from '../../../src/view/time.ts'
import { useAction, useCall } from '../../api/query.ts'
import { CallButton, ConfirmCall } from '../../form/dialog.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Card, Code, Facts } from '../../ui/card.tsx'
import { ConfirmDialog, useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Deliveries } from './deliveries.tsx'
import { WebhookForm } from './form.tsx'
import { EventNames, SigningSecret, WebhookState, WebhookSwitch } from './parts.tsx'

type Webhook = Reply<'listWebhooks'>['webhooks'][number]

const route = getRouteApi('/shell/webhooks/$id')

export function WebhookPage() {
  const { id } = route.useParams()
  const webhooks = useCall('listWebhooks')
  const webhook = webhooks.data?.webhooks.find((one) => one.id === id)
  if (webhook !== undefined) return <OneWebhook webhook={webhook} />
  return (
    <Page>
      <Answer of={webhooks}>
        {() => (
          <Empty title="Webhook not found" action={<ButtonLink to="/webhooks">All webhooks</ButtonLink>}>
            It was deleted or belongs to another account.
          </Empty>
        )}
      </Answer>
    </Page>
  )
}

function OneWebhook({ webhook }: { webhook: Webhook }) {
  const dialog = useDialog()
  const ask = (Dialog: typeof RotateDialog) => () =>
    dialog.open((close) => <Dialog webhook={webhook} onClose={close} />)
  return (
    <Page
      actions={
        <>
          <CallButton
            look="primary"
            operation="testWebhook"
            input={{ params: { id: webhook.id } }}
            refreshes={['listWebhookDeliveries']}
            done="Test event sent"
          >
            Send test event
          </CallButton>
          <Button onClick={ask(WebhookForm)}>Edit</Button>
          <WebhookSwitch webhook={webhook} />
          <Button onClick={ask(RotateDialog)}>Rotate secret</Button>
          <Button onClick={ask(DeleteDialog)}>Delete</Button>
        </>
      }
    >
      <Card>
        <Facts
          facts={[
            ['URL', <Code key="url" text={webhook.url} />],
            ['State', <WebhookState key="state" webhook={webhook} />],
            ['Events', <EventNames key="events" types={webhook.eventTypes} />],
            ['Description', webhook.description ?? '—'],
            ['Created', localTime(webhook.createdAt)],
          ]}
        />
      </Card>
      <Deliveries webhookId={webhook.id} />
      {dialog.shown}
    </Page>
  )
}

function RotateDialog({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const rotate = useAction('rotateWebhookSecret', ['listWebhooks'])
  if (rotate.data !== undefined) {
    return <SigningSecret title="New signing secret" secret={rotate.data.secret} overlap onClose={onClose} />
  }
  return (
    <ConfirmDialog
      title="Rotate the signing secret?"
      action="Rotate secret"
      busy={rotate.isPending}
      error={rotate.error}
      onConfirm={() => rotate.mutate({ params: { id: webhook.id } })}
      onClose={onClose}
    >
      Deliveries are signed with both secrets for 24 hours, then only with the new one. A secret replaced earlier stops
      working immediately.
    </ConfirmDialog>
  )
}

function DeleteDialog({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const navigate = route.useNavigate()
  return (
    <ConfirmCall
      title="Delete this webhook?"
      action="Delete"
      operation="deleteWebhook"
      input={{ params: { id: webhook.id } }}
      refreshes={['listWebhooks']}
      done="Webhook deleted"
      onDone={() => void navigate({ to: '/webhooks' })}
      onClose={onClose}
    >
      Events are no longer sent to <span className="font-mono break-all">{webhook.url}</span>, and its delivery history
      is deleted.
    </ConfirmCall>
  )
}
