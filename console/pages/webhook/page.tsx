/** One webhook and its deliveries. Deliveries raise no events, so they are polled. */
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { localTime } from '../../../src/view/time.ts'
import { useAction, useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Card, Facts } from '../../ui/card.tsx'
import { ConfirmDialog, Dialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { toast } from '../../ui/toast.tsx'
import { Deliveries } from './deliveries.tsx'
import { WebhookForm } from './form.tsx'
import { EventNames, SecretOnce, WebhookState, WebhookSwitch } from './parts.tsx'

type Webhook = Reply<'listWebhooks'>['webhooks'][number]

const route = getRouteApi('/shell/webhooks/$id')

export function WebhookPage() {
  const { id } = route.useParams()
  const webhooks = useCall('listWebhooks')
  const found = webhooks.data?.webhooks.find((one) => one.id === id)
  if (found !== undefined) return <OneWebhook webhook={found} />
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

type Asked = 'edit' | 'rotate' | 'delete'

function OneWebhook({ webhook }: { webhook: Webhook }) {
  const [asked, setAsked] = useState<Asked>()
  const close = (): void => setAsked(undefined)
  const test = useAction('testWebhook', ['listWebhookDeliveries'])
  const sendTest = (): void =>
    test.mutate(
      { params: { id: webhook.id } },
      { onSuccess: () => toast('Test event sent'), onError: (error) => toast(error.message, 'bad') },
    )
  return (
    <Page
      actions={
        <>
          <Button look="primary" busy={test.isPending} onClick={sendTest}>
            Send test event
          </Button>
          <Button onClick={() => setAsked('edit')}>Edit</Button>
          <WebhookSwitch webhook={webhook} />
          <Button onClick={() => setAsked('rotate')}>Rotate secret</Button>
          <Button onClick={() => setAsked('delete')}>Delete</Button>
        </>
      }
    >
      <Card>
        <Facts
          facts={[
            [
              'URL',
              <span key="url" className="font-mono break-all">
                {webhook.url}
              </span>,
            ],
            ['State', <WebhookState key="state" webhook={webhook} />],
            ['Events', <EventNames key="events" types={webhook.eventTypes} />],
            ['Description', webhook.description ?? '—'],
            ['Created', localTime(webhook.createdAt)],
          ]}
        />
      </Card>
      <Deliveries webhookId={webhook.id} />
      {asked === 'edit' && <WebhookForm webhook={webhook} onClose={close} />}
      {asked === 'rotate' && <RotateDialog webhook={webhook} onClose={close} />}
      {asked === 'delete' && <DeleteDialog webhook={webhook} onClose={close} />}
    </Page>
  )
}

function RotateDialog({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const rotate = useAction('rotateWebhookSecret', ['listWebhooks'])
  if (rotate.data !== undefined) {
    return (
      <Dialog title="New signing secret" onClose={onClose} wide kept>
        <SecretOnce secret={rotate.data.secret} overlap onClose={onClose} />
      </Dialog>
    )
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
