/** Creates an account. Its first key is shown once, here. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { scopes, type Scope } from '../../../src/contract/endpoint.ts'
import { scopeLabels } from '../../../src/view/account.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { optionalNumber } from '../../form/read.ts'
import { useCallForm } from '../../form/use-form.ts'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { CopyLine } from '../../ui/copy.tsx'
import { Dialog, DialogButtons } from '../../ui/dialog.tsx'
import { CheckField, TextField } from '../../ui/field.tsx'

/** Scopes of a customer's first key. Setting a fee adds `supply`. */
const customerScopes: Scope[] = scopes.filter((scope) => scope !== 'operator' && scope !== 'supply')

export function OpenAccountDialog({ onClose }: { onClose: () => void }) {
  const [opened, setOpened] = useState<Reply<'createAccount'>>()
  const form = useCallForm('createAccount', {
    refreshes: ['listAccounts', 'listAudit'],
    initial: { name: '', ownerEmail: '', platformFeePercentage: '', scopes: customerScopes },
    body: (values) => ({
      name: values.name,
      ownerEmail: values.ownerEmail.trim(),
      scopes: values.scopes,
      platformFeePercentage: optionalNumber(values.platformFeePercentage),
    }),
    onDone: setOpened,
  })
  if (opened !== undefined) return <Opened opened={opened} onClose={onClose} />
  const { scopes: chosen, platformFeePercentage: fee } = form.values
  const scopesWith = (scope: Scope, isIn: boolean): Scope[] =>
    scopes.filter((one) => (one === scope ? isIn : chosen.includes(one)))
  const scopesError = form.error('scopes')
  const feeField = form.text('platformFeePercentage')
  return (
    <FormDialog title="Create an account" form={form} action="Create account" onClose={onClose}>
      <TextField label="Name" {...form.text('name')} />
      <TextField label="Owner’s email" type="email" {...form.text('ownerEmail')} />
      <TextField
        label="Platform fee (%)"
        inputMode="decimal"
        hint="For suppliers only: your share of their prices. Leave empty for a customer."
        {...feeField}
        onChange={(event) => {
          feeField.onChange(event)
          // A supplier's first key gets the scope `supply` unless it is unticked.
          const isSupplier = event.target.value.trim() !== ''
          if (isSupplier !== (fee.trim() !== '')) form.set({ scopes: scopesWith('supply', isSupplier) })
        }}
      />
      <fieldset className="flex flex-col gap-2">
        <legend className="mb-1 text-sm font-medium">Scopes of the first API key</legend>
        <div className="grid gap-2 sm:grid-cols-2">
          {scopes
            .filter((scope) => scope !== 'operator')
            .map((scope) => (
              <CheckField
                key={scope}
                label={scopeLabels[scope]}
                checked={chosen.includes(scope)}
                onChange={(event) => form.set({ scopes: scopesWith(scope, event.target.checked) })}
              />
            ))}
        </div>
        {scopesError !== undefined && <p className="text-sm text-bad">{scopesError}</p>}
      </fieldset>
    </FormDialog>
  )
}

function Opened({ opened, onClose }: { opened: Reply<'createAccount'>; onClose: () => void }) {
  const { account, key } = opened
  return (
    <Dialog title={`Created ${account.name}`} onClose={onClose} kept>
      <div className="flex flex-col gap-3 text-sm">
        <p>This is its first API key. It is not shown again; send it to the owner securely.</p>
        <CopyLine text={key} label="First API key" />
        <p className="text-muted">The account has no balance yet. Add money so that its owner can rent machines.</p>
      </div>
      <DialogButtons>
        <Button onClick={onClose}>Done</Button>
        <ButtonLink to="/operator/accounts/$id" params={{ id: account.id }} look="primary">
          View account
        </ButtonLink>
      </DialogButtons>
    </Dialog>
  )
}
