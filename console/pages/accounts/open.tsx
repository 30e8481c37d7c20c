/** Opening an account. Its first key is shown once, here. */
import { useState, type FormEvent, type ReactNode } from 'react'
import { z } from 'zod'
import type { Reply } from '../../../src/client/client.ts'
import { scopes, type Scope } from '../../../src/contract/endpoint.ts'
import { useCreate } from '../../api/create.ts'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { CopyLine } from '../../ui/copy.tsx'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { CheckField, TextField } from '../../ui/field.tsx'
import { feeOf } from '../account/fee.ts'

/** What the first key of a customer may do; `supply` comes with the fee. */
const customerScopes = scopes.filter((scope) => scope !== 'operator' && scope !== 'supply')

const scopeWords: Readonly<Record<Scope, string>> = {
  inference: 'Call models',
  'compute:read': 'See machines and volumes',
  'compute:write': 'Rent and end machines',
  'billing:read': 'See money',
  'billing:write': 'Change how it pays',
  keys: 'Make keys, members and webhooks',
  supply: 'Supply machines',
  operator: 'Operate this installation',
}

export function OpenAccountDialog({ onClose }: { onClose: () => void }) {
  const create = useCreate('createAccount', ['listAccounts', 'listAudit'])
  if (create.data !== undefined) return <Opened opened={create.data} onClose={onClose} />
  return (
    <Dialog title="Open an account" onClose={onClose}>
      <OpenForm
        busy={create.isPending}
        onClose={onClose}
        onSubmit={(body) => create.mutate({ body })}
        error={create.error === null ? null : <ErrorNotice error={create.error} />}
      />
    </Dialog>
  )
}

interface NewAccount {
  readonly name: string
  readonly ownerEmail: string
  readonly scopes: Scope[]
  readonly platformFeePercentage?: number
}

interface OpenFormProps {
  readonly busy: boolean
  readonly error: ReactNode
  readonly onSubmit: (account: NewAccount) => void
  readonly onClose: () => void
}

function OpenForm({ busy, error, onSubmit, onClose }: OpenFormProps) {
  const [name, setName] = useState('')
  const [email, setEmail] = useState('')
  const [fee, setFee] = useState('')
  const [chosen, setChosen] = useState<ReadonlySet<Scope>>(new Set(customerScopes))
  const [isChecked, setChecked] = useState(false)
  const feeValue = feeOf(fee)
  const faults = {
    name: name.trim() === '' ? 'Give it a name.' : undefined,
    email: z.email().safeParse(email).success ? undefined : 'Write an e-mail address.',
    fee: fee !== '' && feeValue === undefined ? 'Write a percentage from 0 to 100, such as 12.5.' : undefined,
    scopes: chosen.size === 0 ? 'Choose at least one.' : undefined,
  }
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setChecked(true)
    if (Object.values(faults).some((fault) => fault !== undefined)) return
    onSubmit({
      name: name.trim(),
      ownerEmail: email,
      scopes: scopes.filter((scope) => chosen.has(scope)),
      ...(feeValue === undefined ? {} : { platformFeePercentage: feeValue }),
    })
  }
  const toggle = (scope: Scope): void =>
    setChosen(chosen.has(scope) ? without(chosen, scope) : new Set([...chosen, scope]))
  const changeFee = (text: string): void => {
    setFee(text)
    // A supplier's key can supply, unless one unticks it.
    if (fee === '' && text !== '') setChosen(new Set([...chosen, 'supply']))
    if (text === '') setChosen(without(chosen, 'supply'))
  }
  return (
    <form onSubmit={submit} noValidate className="flex flex-col gap-4">
      <TextField
        label="Name"
        value={name}
        onChange={(event) => setName(event.target.value)}
        error={isChecked ? faults.name : undefined}
      />
      <TextField
        label="E-mail of the owner"
        type="email"
        value={email}
        onChange={(event) => setEmail(event.target.value.trim())}
        error={isChecked ? faults.email : undefined}
      />
      <TextField
        label="Supplier fee in percent"
        inputMode="decimal"
        value={fee}
        onChange={(event) => changeFee(event.target.value.trim())}
        error={isChecked ? faults.fee : undefined}
        hint="Only for suppliers: what the house keeps of their prices. Empty: a customer."
      />
      <fieldset className="flex flex-col gap-2">
        <legend className="mb-1 text-sm font-medium">What its first key may do</legend>
        <div className="grid gap-2 sm:grid-cols-2">
          {scopes
            .filter((scope) => scope !== 'operator')
            .map((scope) => (
              <CheckField
                key={scope}
                label={scopeWords[scope]}
                checked={chosen.has(scope)}
                onChange={() => toggle(scope)}
              />
            ))}
        </div>
        {isChecked && faults.scopes !== undefined && <p className="text-sm text-bad">{faults.scopes}</p>}
      </fieldset>
      {error}
      <DialogButtons>
        <CancelButton onClick={onClose} />
        <SubmitButton busy={busy}>Open the account</SubmitButton>
      </DialogButtons>
    </form>
  )
}

function Opened({ opened, onClose }: { opened: Reply<'createAccount'>; onClose: () => void }) {
  const { account, key } = opened
  return (
    <Dialog title={`${account.name} is open`} onClose={onClose} kept>
      <div className="flex flex-col gap-3 text-sm">
        <p>This is its first key. It is shown once; hand it to the owner in a safe way.</p>
        <CopyLine text={key} label="First key" />
        <p className="text-muted">
          The account has no money yet: its owner can look around, and rents once you have given it some.
        </p>
      </div>
      <DialogButtons>
        <Button onClick={onClose}>Done</Button>
        <ButtonLink to="/operator/accounts/$id" params={{ id: account.id }} look="primary">
          Go to the account
        </ButtonLink>
      </DialogButtons>
    </Dialog>
  )
}

function without(set: ReadonlySet<Scope>, scope: Scope): ReadonlySet<Scope> {
  return new Set([...set].filter((one) => one !== scope))
}
