/** The fields in which a person gives a device or an agent an account, scopes, and a time. */
import { limits } from '../../src/base/limits.ts'
import type { Reply } from '../../src/client/client.ts'
import type { Scope } from '../../src/contract/endpoint.ts'
import { scopeTexts } from '../../src/contract/scope-text.ts'
import { roleLabels } from '../../src/view/account.ts'
import { CheckList, SelectField, TextField } from '../ui/field.tsx'

/** The choices of the person, with the days as typed. */
export interface Rights {
  readonly accountId: string
  readonly scopes: readonly string[]
  readonly days: string
}

interface RightsFieldsProps {
  readonly accounts: Reply<'getPerson'>['accounts']
  /** The scopes to choose from. */
  readonly offered: readonly Scope[]
  readonly rights: Rights
  readonly onChange: (rights: Rights) => void
}

export function RightsFields({ accounts, offered, rights, onChange }: RightsFieldsProps) {
  const set = (change: Partial<Rights>): void => onChange({ ...rights, ...change })
  return (
    <>
      <SelectField
        label="Account"
        choices={accounts.map(({ accountId: value, accountName, role }) => ({
          value,
          label: `${accountName} (${roleLabels[role]})`,
        }))}
        value={rights.accountId}
        onChange={(event) => set({ accountId: event.target.value })}
      />
      <CheckList
        label="Scopes"
        hint="It never gets more than you have in the account."
        choices={offered.map((scope) => ({ value: scope, label: scope, hint: scopeTexts[scope] }))}
        chosen={rights.scopes}
        onChange={(chosen) => set({ scopes: chosen })}
      />
      <TextField
        label="Days"
        type="number"
        min={1}
        max={limits.deviceKeyDays}
        value={rights.days}
        onChange={(event) => set({ days: event.target.value })}
        hint={`The login ends by itself then, after at most ${limits.deviceKeyDays} days.`}
      />
    </>
  )
}
