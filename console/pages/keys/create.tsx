/** Making a key: its form, and then the key itself, which is shown this once and never again. */
import { useId, useRef, useState, type FormEvent } from 'react'
import { instantOf } from '../../../src/base/instant.ts'
import type { Reply } from '../../../src/client/client.ts'
import { scopes, type Scope } from '../../../src/contract/endpoint.ts'
import { mayUse, useMe } from '../../api/me.ts'
import { useAction, useCall } from '../../api/query.ts'
import { Button } from '../../ui/button.tsx'
import { CopyLine } from '../../ui/copy.tsx'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { CheckField, SelectField, TextArea, TextField } from '../../ui/field.tsx'
import { errorBesideFields, fieldError } from '../../ui/field-error.ts'
import { useNow } from '../../ui/now.ts'
import { bodyOf, draftFaults, emptyDraft, modelsOf, type DraftFaults, type KeyDraft } from './draft.ts'

const scopeHints: Readonly<Record<Scope, string>> = {
  inference: 'Call models.',
  'compute:read': 'See machines, rentals, volumes and events.',
  'compute:write': 'Rent and end machines, make and delete volumes. This spends money.',
  'billing:read': 'See the balance, usage and invoices.',
  'billing:write': 'Kept for changes to how the account pays; nothing asks for it today.',
  keys: 'Manage API keys, SSH keys, webhooks and members. This is as much as signing in.',
  supply: 'Join machines of your own and set their prices.',
  operator: 'Everything, in every account of this server.',
}

const expiries = [
  { value: 'never', label: 'Never' },
  { value: '7', label: 'In 7 days' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In 365 days' },
  { value: 'day', label: 'On a day' },
]

export function CreateKeyDialog({ onClose }: { onClose: () => void }) {
  const [made, setMade] = useState<Reply<'createApiKey'>>()
  return (
    <Dialog
      title={made === undefined ? 'Create an API key' : 'This is your new key'}
      onClose={onClose}
      kept={made !== undefined}
      wide
    >
      {made === undefined ? (
        <KeyForm onMade={setMade} onClose={onClose} />
      ) : (
        <div className="flex flex-col gap-4">
          <p className="rounded-md border border-warn bg-warn-soft px-4 py-3 text-sm">
            <strong>It is shown this once.</strong> Copy it now to where you keep secrets; nobody can show it again, not
            even the operator. If it is lost, revoke it and make another.
          </p>
          <CopyLine label={`Key ${made.name}`} text={made.key} />
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

function KeyForm({ onMade, onClose }: { onMade: (key: Reply<'createApiKey'>) => void; onClose: () => void }) {
  const now = instantOf(useNow())
  const [draft, setDraft] = useState<KeyDraft>(emptyDraft)
  const [wasTried, setTried] = useState(false)
  const create = useAction('createApiKey', ['listApiKeys'])
  const sent = useRef<{ readonly draft: KeyDraft; readonly body: ReturnType<typeof bodyOf> }>(undefined)
  const faults: DraftFaults = wasTried ? draftFaults(draft, now) : {}
  const set = (part: Partial<KeyDraft>): void => setDraft({ ...draft, ...part })
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setTried(true)
    if (Object.keys(draftFaults(draft, now)).length > 0) return
    // "In 30 days" counts from the first try: one that is sent again, its answer lost, must be the same.
    if (sent.current?.draft !== draft) sent.current = { draft, body: bodyOf(draft, now) }
    create.mutate({ body: sent.current.body }, { onSuccess: onMade })
  }
  const sayAt = (field: keyof KeyDraft): string | undefined => faults[field] ?? fieldError(create.error, field)
  const left = errorBesideFields(create.error, [
    'name',
    'memberId',
    'expiresAt',
    'monthlyLimitUsd',
    'totalLimitUsd',
    'requestsPerMinute',
    'tokensPerMinute',
  ])
  return (
    <form onSubmit={submit} noValidate className="flex flex-col gap-5">
      <TextField
        label="Name"
        maxLength={255}
        value={draft.name}
        error={sayAt('name')}
        hint="What uses it: “laptop”, “nightly training”."
        onChange={(event) => set({ name: event.target.value })}
      />
      <ForWhom draft={draft} set={set} fault={fieldError(create.error, 'memberId')} />
      <Scopes chosen={draft.scopes} fault={faults.scopes} onChange={(chosen) => set({ scopes: chosen })} />
      <div className="grid gap-4 sm:grid-cols-2">
        <SelectField
          label="Expires"
          choices={expiries}
          value={draft.expiry}
          error={fieldError(create.error, 'expiresAt')}
          onChange={(event) => set({ expiry: event.target.value })}
        />
        {draft.expiry === 'day' && (
          <TextField
            label="Last day"
            type="date"
            value={draft.expiryDay}
            error={faults.expiryDay}
            onChange={(event) => set({ expiryDay: event.target.value })}
          />
        )}
      </div>
      <details className="rounded-md border border-line p-3" open={Object.keys(faults).some(isLimit) || undefined}>
        <summary className="cursor-pointer text-sm font-medium">Limits</summary>
        <LimitFields draft={draft} sayAt={sayAt} set={set} />
      </details>
      {left !== null && <ErrorNotice error={left} />}
      <DialogButtons>
        <CancelButton onClick={onClose} />
        <SubmitButton busy={create.isPending}>Create</SubmitButton>
      </DialogButtons>
    </form>
  )
}

interface ForWhomProps {
  readonly draft: KeyDraft
  readonly set: (part: Partial<KeyDraft>) => void
  readonly fault: string | undefined
}

/** People sign in by keys, and a new member has none: an owner makes the first one for them. */
function ForWhom({ draft, set, fault }: ForWhomProps) {
  const me = useMe()
  const isOwner = me.role === 'owner'
  const members = useCall('listMembers', {}, { enabled: isOwner })
  const others = (members.data?.members ?? []).filter((member) => member.id !== me.id)
  if (!isOwner || others.length === 0) return null
  return (
    <SelectField
      label="For"
      choices={[
        { value: '', label: 'Yourself' },
        ...others.map((member) => ({ value: member.id, label: `${member.email} (${member.role})` })),
      ]}
      value={draft.memberId}
      error={fault}
      hint="It acts for this person, and ends when they are removed."
      onChange={(event) => set({ memberId: event.target.value })}
    />
  )
}

function isLimit(field: string): boolean {
  return field.endsWith('LimitUsd') || field.endsWith('PerMinute')
}

interface ScopesProps {
  readonly chosen: readonly Scope[]
  readonly fault: string | undefined
  readonly onChange: (chosen: Scope[]) => void
}

/** A key gets no scope that the one lacks which makes it. */
function Scopes({ chosen, fault, onChange }: ScopesProps) {
  const me = useMe()
  const id = useId()
  const holds = (scope: Scope): boolean => mayUse(me, scope) || mayUse(me, 'operator')
  const offered = scopes.filter((scope) => scope !== 'operator' || mayUse(me, 'operator'))
  return (
    <fieldset aria-describedby={fault === undefined ? undefined : id}>
      <legend className="mb-2 text-sm font-medium">What it may do</legend>
      <div className="grid gap-x-4 gap-y-3 sm:grid-cols-2">
        {offered.map((scope) => (
          <CheckField
            key={scope}
            label={scope}
            hint={holds(scope) ? scopeHints[scope] : `${scopeHints[scope]} Your own key lacks it.`}
            disabled={!holds(scope)}
            checked={chosen.includes(scope)}
            onChange={(event) =>
              onChange(event.target.checked ? [...chosen, scope] : chosen.filter((one) => one !== scope))
            }
          />
        ))}
      </div>
      {fault !== undefined && (
        <p id={id} className="mt-2 text-sm text-bad">
          {fault}
        </p>
      )}
    </fieldset>
  )
}

interface LimitFieldsProps {
  readonly draft: KeyDraft
  readonly sayAt: (field: keyof KeyDraft) => string | undefined
  readonly set: (part: Partial<KeyDraft>) => void
}

function LimitFields({ draft, sayAt, set }: LimitFieldsProps) {
  return (
    <div className="mt-3 grid gap-4 sm:grid-cols-2">
      <TextField
        label="Spends a month at most ($)"
        inputMode="decimal"
        placeholder="No limit"
        value={draft.monthlyLimitUsd}
        error={sayAt('monthlyLimitUsd')}
        onChange={(event) => set({ monthlyLimitUsd: event.target.value })}
      />
      <TextField
        label="Spends in all at most ($)"
        inputMode="decimal"
        placeholder="No limit"
        value={draft.totalLimitUsd}
        error={sayAt('totalLimitUsd')}
        onChange={(event) => set({ totalLimitUsd: event.target.value })}
      />
      <TextField
        label="Requests a minute"
        inputMode="numeric"
        placeholder="That of the server"
        value={draft.requestsPerMinute}
        error={sayAt('requestsPerMinute')}
        onChange={(event) => set({ requestsPerMinute: event.target.value })}
      />
      <TextField
        label="Tokens a minute"
        inputMode="numeric"
        placeholder="That of the account"
        value={draft.tokensPerMinute}
        error={sayAt('tokensPerMinute')}
        onChange={(event) => set({ tokensPerMinute: event.target.value })}
      />
      <AllowedModels draft={draft} set={set} />
    </div>
  )
}

/** A name that is not on sale is taken all the same: it may be sold later. */
function AllowedModels({ draft, set }: Omit<LimitFieldsProps, 'sayAt'>) {
  const me = useMe()
  const models = useCall('listModels', {}, { enabled: mayUse(me, 'inference') })
  const names = models.data?.data.map((model) => model.id) ?? []
  const unknown = models.data === undefined ? [] : modelsOf(draft).filter((name) => !names.includes(name))
  const onSale = names.length === 0 ? '' : ` On sale: ${names.join(', ')}.`
  return (
    <TextArea
      label="Only these models"
      className="sm:col-span-2"
      rows={2}
      spellCheck={false}
      placeholder="All models"
      hint={unknown.length === 0 ? `One a line.${onSale}` : `Not on sale now: ${unknown.join(', ')}.${onSale}`}
      value={draft.allowedModels}
      onChange={(event) => set({ allowedModels: event.target.value })}
    />
  )
}
