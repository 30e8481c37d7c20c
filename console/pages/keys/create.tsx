/** Creating an API key. The key is shown once, when it is created. */
import { useId, useState } from 'react'
import { instantOf } from '../../../src/base/instant.ts'
import type { Reply } from '../../../src/client/client.ts'
import { scopes, type Scope } from '../../../src/contract/endpoint.ts'
import { mayUse, useMe } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { FormFrame } from '../../form/dialog.tsx'
import { useCallForm, type Form } from '../../form/use-form.ts'
import { scopeTexts } from '../../../src/contract/scope-text.ts'
import { Button } from '../../ui/button.tsx'
import { CopyLine } from '../../ui/copy.tsx'
import { Dialog, DialogButtons } from '../../ui/dialog.tsx'
import { CheckField, SelectField, TextArea, TextField } from '../../ui/field.tsx'
import { useNow } from '../../ui/now.ts'
import { bodyOf, checkDraft, emptyDraft, modelsOf, type KeyDraft } from './draft.ts'

const expiries = [
  { value: 'never', label: 'Never' },
  { value: '7', label: 'In 7 days' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In 365 days' },
  { value: 'day', label: 'On a specific day' },
]

export function CreateKeyDialog({ onClose }: { onClose: () => void }) {
  const [created, setCreated] = useState<Reply<'createApiKey'>>()
  return (
    <Dialog
      title={created === undefined ? 'Create API key' : 'Your new API key'}
      onClose={onClose}
      kept={created !== undefined}
      wide
    >
      {created === undefined ? (
        <KeyForm onCreated={setCreated} onClose={onClose} />
      ) : (
        <div className="flex flex-col gap-4">
          <p className="rounded-md border border-warn bg-warn-soft px-4 py-3 text-sm">
            <strong>This key is shown only once.</strong> Copy it to a safe place now. If you lose it, revoke it and
            create a new one.
          </p>
          <CopyLine label={`Key ${created.name}`} text={created.key} />
          <DialogButtons>
            <Button look="primary" onClick={onClose}>
              I have copied it
            </Button>
          </DialogButtons>
        </div>
      )}
    </Dialog>
  )
}

const limitFields = ['monthlyLimitUsd', 'totalLimitUsd', 'requestsPerMinute', 'tokensPerMinute'] as const

function KeyForm({ onCreated, onClose }: { onCreated: (key: Reply<'createApiKey'>) => void; onClose: () => void }) {
  const now = instantOf(useNow())
  const form = useCallForm('createApiKey', {
    refreshes: ['listApiKeys'],
    initial: emptyDraft,
    body: (draft) => bodyOf(draft, now),
    check: (draft) => checkDraft(draft, now),
    paths: { expiry: 'expiresAt' },
    onDone: onCreated,
  })
  return (
    <FormFrame form={form} action="Create key" onClose={onClose}>
      <TextField
        label="Name"
        maxLength={255}
        hint="For example “laptop” or “nightly training”."
        {...form.text('name')}
      />
      <Member form={form} />
      <Scopes form={form} />
      <div className="grid gap-4 sm:grid-cols-2">
        <SelectField label="Expires" choices={expiries} {...form.text('expiry')} />
        {form.values.expiry === 'day' && <TextField label="Last day" type="date" {...form.text('expiryDay')} />}
      </div>
      <details
        className="rounded-md border border-line p-3"
        open={limitFields.some((name) => form.error(name) !== undefined) || undefined}
      >
        <summary className="cursor-pointer text-sm font-medium">Limits</summary>
        <LimitFields form={form} />
      </details>
    </FormFrame>
  )
}

/** Members sign in with keys, so an owner creates the first key for a new member. */
function Member({ form }: { form: Form<KeyDraft> }) {
  const me = useMe()
  const isOwner = me.role === 'owner'
  const members = useCall('listMembers', {}, { enabled: isOwner })
  const others = (members.data?.members ?? []).filter((member) => member.id !== me.id)
  if (!isOwner || others.length === 0) return null
  return (
    <SelectField
      label="Member"
      choices={[
        { value: '', label: 'Yourself' },
        ...others.map((member) => ({ value: member.id, label: `${member.email} (${member.role})` })),
      ]}
      hint="Acts on this member’s behalf; revoked when they are removed."
      {...form.text('memberId')}
    />
  )
}

/** A key cannot have scopes that the key creating it lacks. */
function Scopes({ form }: { form: Form<KeyDraft> }) {
  const me = useMe()
  const id = useId()
  const { scopes: chosen } = form.values
  const error = form.error('scopes')
  const hasScope = (scope: Scope): boolean => mayUse(me, scope) || mayUse(me, 'operator')
  const offered = scopes.filter((scope) => scope !== 'operator' || mayUse(me, 'operator'))
  return (
    <fieldset aria-describedby={error === undefined ? undefined : id}>
      <legend className="mb-2 text-sm font-medium">Scopes</legend>
      <div className="grid gap-x-4 gap-y-3 sm:grid-cols-2">
        {offered.map((scope) => (
          <CheckField
            key={scope}
            label={scope}
            hint={hasScope(scope) ? scopeTexts[scope] : `${scopeTexts[scope]} Your key does not have this scope.`}
            disabled={!hasScope(scope)}
            checked={chosen.includes(scope)}
            onChange={(event) =>
              form.set({ scopes: event.target.checked ? [...chosen, scope] : chosen.filter((one) => one !== scope) })
            }
          />
        ))}
      </div>
      {error !== undefined && (
        <p id={id} className="mt-2 text-sm text-bad">
          {error}
        </p>
      )}
    </fieldset>
  )
}

function LimitFields({ form }: { form: Form<KeyDraft> }) {
  return (
    <div className="mt-3 grid gap-4 sm:grid-cols-2">
      <TextField
        label="Monthly spending limit ($)"
        inputMode="decimal"
        placeholder="No limit"
        {...form.text('monthlyLimitUsd')}
      />
      <TextField
        label="Total spending limit ($)"
        inputMode="decimal"
        placeholder="No limit"
        {...form.text('totalLimitUsd')}
      />
      <TextField
        label="Requests per minute"
        inputMode="numeric"
        placeholder="Server default"
        {...form.text('requestsPerMinute')}
      />
      <TextField
        label="Tokens per minute"
        inputMode="numeric"
        placeholder="Account limit"
        {...form.text('tokensPerMinute')}
      />
      <AllowedModels form={form} />
    </div>
  )
}

/** A model that is not available is accepted: it may be offered later. */
function AllowedModels({ form }: { form: Form<KeyDraft> }) {
  const me = useMe()
  const models = useCall('listModels', {}, { enabled: mayUse(me, 'inference') })
  const names = models.data?.data.map((model) => model.id) ?? []
  const unknown = models.data === undefined ? [] : modelsOf(form.values).filter((name) => !names.includes(name))
  const available = names.length === 0 ? '' : ` Available: ${names.join(', ')}.`
  return (
    <TextArea
      label="Allowed models"
      className="sm:col-span-2"
      rows={2}
      spellCheck={false}
      placeholder="All models"
      hint={unknown.length === 0 ? `One per line.${available}` : `Not available: ${unknown.join(', ')}.${available}`}
      {...form.text('allowedModels')}
    />
  )
}
