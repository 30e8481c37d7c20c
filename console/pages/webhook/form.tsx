/** Creating and editing a webhook: its URL and its events. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { eventTypes, type EventType } from '../../../src/contract/event-type.ts'
import { FormFrame } from '../../form/dialog.tsx'
import { optionalText } from '../../form/read.ts'
import { useCallForm } from '../../form/use-form.ts'
import { Dialog } from '../../ui/dialog.tsx'
import { CheckField, TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'
import { SecretOnce } from './parts.tsx'

type Webhook = Reply<'listWebhooks'>['webhooks'][number]

/** Test events are sent by a button, regardless of the selection. */
const NOT_CHOSEN = 'webhook.test'

const chosenTypes = (Object.keys(eventTypes) as EventType[]).filter((type) => type !== NOT_CHOSEN)

/** By the first part of an event's type. */
const groups = [...new Set(chosenTypes.map((type) => type.split('.')[0] ?? ''))].map((word) => ({
  name: word.charAt(0).toUpperCase() + word.slice(1),
  types: chosenTypes.filter((type) => type.startsWith(`${word}.`)),
}))

/** Without a webhook: creates one and shows its secret. */
export function WebhookForm({ webhook, onClose }: { webhook?: Webhook; onClose: () => void }) {
  const [secret, setSecret] = useState<string>()
  if (secret !== undefined) {
    return (
      <Dialog title="Signing secret" onClose={onClose} wide kept>
        <SecretOnce secret={secret} overlap={false} onClose={onClose} />
      </Dialog>
    )
  }
  return (
    <Dialog title={webhook === undefined ? 'Add webhook' : 'Edit webhook'} onClose={onClose} wide>
      <Fields webhook={webhook} onCreated={setSecret} onClose={onClose} />
    </Dialog>
  )
}

interface FieldsProps {
  readonly webhook: Webhook | undefined
  readonly onCreated: (secret: string) => void
  readonly onClose: () => void
}

interface Values {
  readonly url: string
  readonly description: string
  readonly eventTypes: readonly EventType[] | null
}

function Fields({ webhook, onCreated, onClose }: FieldsProps) {
  const shared = {
    refreshes: ['listWebhooks'] as const,
    initial: {
      url: webhook?.url ?? '',
      description: webhook?.description ?? '',
      eventTypes: webhook?.eventTypes ?? null,
    } as Values,
    body: ({ url, description, eventTypes: types }: Values) => ({
      url: url.trim(),
      description: optionalText(description) ?? null,
      eventTypes: types === null ? null : [...types],
    }),
  }
  const create = useCallForm('createWebhook', { ...shared, onDone: ({ secret }) => onCreated(secret) })
  const change = useCallForm('changeWebhook', {
    ...shared,
    input: { params: { id: webhook?.id ?? '' } },
    onDone: () => {
      toast('Webhook saved')
      onClose()
    },
  })
  const form = webhook === undefined ? create : change
  return (
    <FormFrame form={form} action={webhook === undefined ? 'Add webhook' : 'Save'} onClose={onClose}>
      <TextField
        label="URL"
        type="url"
        maxLength={2_048}
        placeholder="https://example.com/hooks/berth"
        hint="Receives a POST per event and must answer with a 2xx status within 10 seconds."
        {...form.text('url')}
      />
      <TextField label="Description" maxLength={255} placeholder="Optional" {...form.text('description')} />
      <EventChoice
        types={form.values.eventTypes}
        error={form.error('eventTypes')}
        onChange={(types) => form.set({ eventTypes: types })}
      />
    </FormFrame>
  )
}

interface EventChoiceProps {
  readonly types: readonly EventType[] | null
  readonly error: string | undefined
  readonly onChange: (types: readonly EventType[] | null) => void
}

function EventChoice({ types, error, onChange }: EventChoiceProps) {
  const changedBy = (changed: readonly EventType[], isIn: boolean): EventType[] => {
    const others = (types ?? []).filter((type) => !changed.includes(type))
    return isIn ? [...others, ...changed] : others
  }
  return (
    <fieldset>
      <legend className="mb-2 text-sm font-medium">Events</legend>
      <CheckField
        label="All events"
        hint="Includes event types added in later versions."
        checked={types === null}
        onChange={(event) => onChange(event.target.checked ? null : [])}
      />
      {error !== undefined && (
        <p role="alert" className="mt-2 text-sm text-bad">
          {error}
        </p>
      )}
      {types !== null && (
        <div className="mt-4 flex flex-col gap-4">
          {groups.map((group) => (
            <fieldset key={group.name} className="border-t border-line pt-3">
              <legend className="sr-only">{group.name}</legend>
              <div className="mb-2 flex items-center justify-between gap-2">
                <h3 className="text-sm font-semibold" aria-hidden="true">
                  {group.name}
                </h3>
                <CheckField
                  label={`All ${group.name.toLowerCase()} events`}
                  checked={group.types.every((type) => types.includes(type))}
                  onChange={(event) => onChange(changedBy(group.types, event.target.checked))}
                />
              </div>
              <div className="grid gap-x-4 gap-y-2 sm:grid-cols-2">
                {group.types.map((type) => (
                  <CheckField
                    key={type}
                    label={type}
                    hint={`${eventTypes[type]}.`}
                    checked={types.includes(type)}
                    onChange={(event) => onChange(changedBy([type], event.target.checked))}
                  />
                ))}
              </div>
            </fieldset>
          ))}
        </div>
      )}
    </fieldset>
  )
}
