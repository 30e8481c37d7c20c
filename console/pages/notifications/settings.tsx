/** Settings: which kinds of notifications are shown in the console or sent by email. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { useAction, useCall } from '../../api/query.ts'
import { textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { Notice } from '../../ui/notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'

type Choices = Reply<'getNotificationChoices'>
type Choice = Choices['choices'][number]

export function NotificationSettings() {
  const choices = useCall('getNotificationChoices')
  return (
    <Answer of={choices} skeleton={<Skeleton rows={8} />}>
      {(value) => (
        <div className="flex flex-col gap-4">
          <Address choices={value} />
          <Table label="Settings" columns={columns} rows={value.choices} rowKey="kind" empty={null} />
        </div>
      )}
    </Answer>
  )
}

function Address({ choices: { emailEnabled, emailAddress, emailConfirmed } }: { choices: Choices }) {
  const send = useAction('sendConfirmationMail')
  if (!emailEnabled) return <Notice>This server sends no e-mail. The operator can configure a mail server.</Notice>
  if (emailConfirmed) return <p className="text-sm text-muted">E-mail goes to {emailAddress}.</p>
  return (
    <Notice>
      <p>{emailAddress} is not confirmed, so no e-mail is sent to it.</p>
      <Button
        className="mt-2"
        busy={send.isPending}
        onClick={() =>
          send.mutate(
            {},
            { onSuccess: ({ message }) => toast(message), onError: (error) => toast(error.message, 'bad') },
          )
        }
      >
        Send confirmation e-mail
      </Button>
    </Notice>
  )
}

const columns: Columns<Choice> = [
  textColumn('Notification', 'label'),
  textColumn('Console', (choice) => <Switch choice={choice} channel="console" />),
  textColumn('E-mail', (choice) => <Switch choice={choice} channel="email" />),
]

const channels = { console: 'in the console', email: 'by e-mail' } as const

function Switch({ choice, channel }: { choice: Choice; channel: keyof typeof channels }) {
  const change = useAction('changeNotificationChoices', ['getNotificationChoices', 'listNotifications'])
  /** The new value, until the choices have been read again. */
  const [newValue, setNewValue] = useState<boolean>()
  const set = (value: boolean): void => {
    setNewValue(value)
    change.mutate(
      { body: { choices: [{ kind: choice.kind, [channel]: value }] } },
      { onError: (error) => toast(error.message, 'bad'), onSettled: () => setNewValue(undefined) },
    )
  }
  return (
    <input
      type="checkbox"
      aria-label={`${choice.label} ${channels[channel]}`}
      className="size-4 accent-accent"
      checked={newValue ?? choice[channel]}
      onChange={(event) => set(event.target.checked)}
    />
  )
}
