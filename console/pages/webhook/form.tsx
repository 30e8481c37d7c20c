/** Creating and editing a webhook: its URL and its events. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { eventTypes, type EventType } from '../../../src/contract/event-type.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { useFieldForm } from '../../form/field-form.ts'
import { Fields } from '../../form/fields.tsx'
import { CheckField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'
import { SigningSecret } from './parts.tsx'

type Webhook = Reply<'listWebhooks'>['webhooks'][number]

/** Test events are sent by a button, regardless of the selection. */
const NOT_CHOSEN = 'webhook.test'

const chosenTypes = (Object.keys(eventTypes) as EventType[]).filter((type) => type !== NOT_CHOSEN)

/** Event types grouped by the first part of their name. */
const groups = [...new Set(chosenTypes.map((type) => type.split('.')[0] ?? ''))].map((word) => ({
  name: word.charAt(0).toUpperCase() + word.slice(1),
  types: chosenTypes.filter((type) => type.startsWith(`${word}.`)),
}))

/** Edits `webhook`; without one, creates a webhook and shows its secret. */
export function WebhookForm({ webhook, onClose }: { webhook?: Webhook; onClose: () => void }) {
  const [secret, setSecret] = useState<string>()
  const [types, setTypes] = useState(webhook?.eventTypes ?? null)
  const operation = webhook === undefined ? 'createWebhook' : 'changeWebhook'
  const form = useFieldForm<typeof operation>(operation, {
    refreshes: ['listWebhooks'],
    input: webhook && { params: { id: webhook.id } },
    before: webhook,
    fields: ['url', 'description'],
    body: (body) => ({ ...body, eventTypes: types }),
    onDone: (reply) => {
      if ('secret' in reply) setSecret(reply.secret)
      else {
        toast('Webhook saved')
        onClose()
      }
    },
  })
  if (secret !== undefined) return <SigningSecret title="Signing secret" secret={secret} onClose={onClose} />
  return (
    <FormDialog
      title={webhook === undefined ? 'Add webhook' : 'Edit webhook'}
      wide
      form={form}
      action={webhook === undefined ? 'Add webhook' : 'Save'}
      onClose={onClose}
    >
      <Fields form={form} wide />
      <EventChoice types={types} error={form.error('eventTypes')} onChange={setTypes} />
    </FormDialog>
  )
}

interface EventChoiceProps {
  readonly types: readonly EventType[] | null
  readonly error: string | undefined
  readonly onChange: (types: EventType[] | null) => void
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
