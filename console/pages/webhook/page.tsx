/**
 * One webhook: where it sends, what it has sent and what came of it. That a delivery has arrived is told by no event, so
 * deliveries are asked for every few seconds.
 */
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { localTime } from '../../../src/view/time.ts'
import { useAction, useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button, ButtonLink, TextLink } from '../../ui/button.tsx'
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
          <Empty title="There is no such webhook" action={<ButtonLink to="/webhooks">All webhooks</ButtonLink>}>
            It was deleted, or belongs to another account.
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
      { onSuccess: () => toast('A test is on its way'), onError: (error) => toast(error.message, 'bad') },
    )
  return (
    <Page
      intro={<TextLink to="/webhooks">All webhooks</TextLink>}
      actions={
        <>
          <Button look="primary" busy={test.isPending} onClick={sendTest}>
            Send a test
          </Button>
          <Button onClick={() => setAsked('edit')}>Edit</Button>
          <WebhookSwitch webhook={webhook} />
          <Button onClick={() => setAsked('rotate')}>New secret</Button>
          <Button onClick={() => setAsked('delete')}>Delete</Button>
        </>
      }
    >
      <Card>
        <Facts
          facts={[
            [
              'Address',
              <span key="url" className="font-mono break-all">
                {webhook.url}
              </span>,
            ],
            ['State', <WebhookState key="state" webhook={webhook} />],
            ['Events', <EventNames key="events" types={webhook.eventTypes} />],
            ['Description', webhook.description ?? '—'],
            ['Made', localTime(webhook.createdAt)],
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
      <Dialog title="The new secret" onClose={onClose} wide kept>
        <SecretOnce secret={rotate.data.secret} overlap onClose={onClose} />
      </Dialog>
    )
  }
  return (
    <ConfirmDialog
      title="Make a new secret?"
      action="Make a new secret"
      busy={rotate.isPending}
      error={rotate.error}
      onConfirm={() => rotate.mutate({ params: { id: webhook.id } })}
      onClose={onClose}
    >
      Deliveries are signed with both secrets for 24 hours, and with the new one alone after that. A secret that was
      replaced before ends at once.
    </ConfirmDialog>
  )
}

function DeleteDialog({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const navigate = route.useNavigate()
  const remove = useAction('deleteWebhook', ['listWebhooks'])
  const confirm = (): void =>
    remove.mutate(
      { params: { id: webhook.id } },
      {
        onSuccess: () => {
          toast('The webhook is deleted')
          void navigate({ to: '/webhooks' })
        },
      },
    )
  return (
    <ConfirmDialog
      title="Delete this webhook?"
      action="Delete"
      busy={remove.isPending}
      error={remove.error}
      onConfirm={confirm}
      onClose={onClose}
    >
      Nothing more is sent to <span className="font-mono break-all">{webhook.url}</span>, and what is known about its
      deliveries is forgotten.
    </ConfirmDialog>
  )
}
