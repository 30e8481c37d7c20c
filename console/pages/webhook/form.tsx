/** Making a webhook and changing one: where it sends, and which events. */
import { useState, type FormEvent } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { eventTypes, type EventType } from '../../../src/contract/event.ts'
import { useAction } from '../../api/query.ts'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { CheckField, TextField } from '../../ui/field.tsx'
import { errorBesideFields, fieldError } from '../../ui/field-error.ts'
import { toast } from '../../ui/toast.tsx'
import { SecretOnce } from './parts.tsx'

type Webhook = Reply<'listWebhooks'>['webhooks'][number]

/** Tests are sent by a button, whatever is chosen here. */
const NOT_CHOSEN = 'webhook.test'

const chosenTypes = (Object.keys(eventTypes) as EventType[]).filter((type) => type !== NOT_CHOSEN)

/** By the first word of an event's type. */
const groups = [...new Set(chosenTypes.map((type) => type.split('.')[0] ?? ''))].map((word) => ({
  name: word.charAt(0).toUpperCase() + word.slice(1),
  types: chosenTypes.filter((type) => type.startsWith(`${word}.`)),
}))

/** Without a webhook: makes one, and shows its secret. */
export function WebhookForm({ webhook, onClose }: { webhook?: Webhook; onClose: () => void }) {
  const [secret, setSecret] = useState<string>()
  if (secret !== undefined) {
    return (
      <Dialog title="The secret that signs deliveries" onClose={onClose} wide kept>
        <SecretOnce secret={secret} overlap={false} onClose={onClose} />
      </Dialog>
    )
  }
  return (
    <Dialog title={webhook === undefined ? 'Add a webhook' : 'Edit the webhook'} onClose={onClose} wide>
      <Fields webhook={webhook} onMade={setSecret} onClose={onClose} />
    </Dialog>
  )
}

interface FieldsProps {
  readonly webhook: Webhook | undefined
  readonly onMade: (secret: string) => void
  readonly onClose: () => void
}

function Fields({ webhook, onMade, onClose }: FieldsProps) {
  const [url, setUrl] = useState(webhook?.url ?? '')
  const [description, setDescription] = useState(webhook?.description ?? '')
  const [types, setTypes] = useState<readonly EventType[] | null>(webhook?.eventTypes ?? null)
  const [wasTried, setTried] = useState(false)
  const create = useAction('createWebhook', ['listWebhooks'])
  const change = useAction('changeWebhook', ['listWebhooks'])
  const error = create.error ?? change.error
  const urlFault = faultOfUrl(url)
  const typesFault = types?.length === 0 ? 'Choose at least one event, or all of them.' : undefined
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setTried(true)
    if (urlFault !== undefined || typesFault !== undefined) return
    const about = description.trim()
    const body = {
      url: url.trim(),
      description: about === '' ? null : about,
      eventTypes: types === null ? null : [...types],
    }
    if (webhook === undefined) {
      create.mutate({ body }, { onSuccess: (made) => onMade(made.secret) })
      return
    }
    const onSuccess = (): void => {
      toast('The webhook is changed')
      onClose()
    }
    change.mutate({ params: { id: webhook.id }, body }, { onSuccess })
  }
  const left = errorBesideFields(error, ['url', 'description'])
  return (
    <form onSubmit={submit} noValidate className="flex flex-col gap-4">
      <TextField
        label="Address"
        type="url"
        maxLength={2_048}
        placeholder="https://example.com/hooks/berth"
        hint="It is sent a POST for each event, and has ten seconds to answer with a 2xx status."
        value={url}
        error={(wasTried ? urlFault : undefined) ?? fieldError(error, 'url')}
        onChange={(event) => setUrl(event.target.value)}
      />
      <TextField
        label="Description"
        maxLength={255}
        placeholder="Optional"
        value={description}
        error={fieldError(error, 'description')}
        onChange={(event) => setDescription(event.target.value)}
      />
      <EventChoice types={types} fault={wasTried ? typesFault : undefined} onChange={setTypes} />
      {left !== null && <ErrorNotice error={left} />}
      <DialogButtons>
        <CancelButton onClick={onClose} />
        <SubmitButton busy={create.isPending || change.isPending}>
          {webhook === undefined ? 'Add' : 'Save'}
        </SubmitButton>
      </DialogButtons>
    </form>
  )
}

interface EventChoiceProps {
  readonly types: readonly EventType[] | null
  readonly fault: string | undefined
  readonly onChange: (types: readonly EventType[] | null) => void
}

function EventChoice({ types, fault, onChange }: EventChoiceProps) {
  const changedBy = (changed: readonly EventType[], isIn: boolean): EventType[] => {
    const others = (types ?? []).filter((type) => !changed.includes(type))
    return isIn ? [...others, ...changed] : others
  }
  return (
    <fieldset>
      <legend className="mb-2 text-sm font-medium">Events</legend>
      <CheckField
        label="All events"
        hint="Also those that come with later versions."
        checked={types === null}
        onChange={(event) => onChange(event.target.checked ? null : [])}
      />
      {fault !== undefined && (
        <p role="alert" className="mt-2 text-sm text-bad">
          {fault}
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
                  label={`All of ${group.name.toLowerCase()}`}
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

function faultOfUrl(text: string): string | undefined {
  if (text.trim() === '') return 'Where should events be sent?'
  const protocol = URL.canParse(text.trim()) ? new URL(text.trim()).protocol : ''
  return protocol === 'https:' || protocol === 'http:' ? undefined : 'An address that begins with https:// or http://.'
}
