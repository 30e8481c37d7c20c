/** Creates an account. Its first key is shown once, here. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { scopes, type Scope } from '../../../src/contract/endpoint.ts'
import { scopeTexts } from '../../../src/contract/scope-text.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { CopyLine } from '../../ui/copy.tsx'
import { Dialog, DialogButtons } from '../../ui/dialog.tsx'

const offeredScopes = scopes.filter((scope) => scope !== 'operator')
const scopeChoices = offeredScopes.map((scope) => ({ value: scope, label: scope, hint: scopeTexts[scope] }))

export function OpenAccountDialog({ onClose }: { onClose: () => void }) {
  const [opened, setOpened] = useState<Reply<'createAccount'>>()
  if (opened !== undefined) return <Opened opened={opened} onClose={onClose} />
  return (
    <FieldDialog
      operation="createAccount"
      refreshes={['listAccounts', 'listAudit']}
      title="Create an account"
      action="Create account"
      initial={{ scopes: withSupply(offeredScopes, false) }}
      fields={({ scopes: chosen, platformFeePercentage: fee }) => [
        'name',
        'ownerEmail',
        [
          'platformFeePercentage',
          {
            // A supplier's first key gets the scope `supply` unless it is unticked.
            also: (text) => (isEmpty(text) === isEmpty(fee) ? {} : { scopes: withSupply(chosen, !isEmpty(text)) }),
          },
        ],
        ['scopes', { choices: scopeChoices, hint: null }],
      ]}
      onDone={setOpened}
      onClose={onClose}
    />
  )
}

function isEmpty(text: string): boolean {
  return text.trim() === ''
}

function withSupply(chosen: readonly Scope[], isSupplier: boolean): Scope[] {
  return offeredScopes.filter((scope) => (scope === 'supply' ? isSupplier : chosen.includes(scope)))
}

function Opened({ opened, onClose }: { opened: Reply<'createAccount'>; onClose: () => void }) {
  const { account, key } = opened
  return (
    <Dialog title={`Created ${account.name}`} onClose={onClose} needsButton>
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
