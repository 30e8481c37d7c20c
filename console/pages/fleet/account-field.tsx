/** Chooses an account by name or id. The server searches; the field offers its first matches. */
import { useId, useState } from 'react'
import { useCall } from '../../api/query.ts'
import { optionalText } from '../../form/read.ts'
import { TextField } from '../../ui/field.tsx'

const SUGGESTIONS = 20

interface AccountFieldProps {
  /** The id of the account; empty: any account. */
  readonly value: string
  readonly onChange: (id: string) => void
}

export function AccountField({ value, onChange }: AccountFieldProps) {
  const [typed, setTyped] = useState(value)
  const list = useId()
  const query = { limit: SUGGESTIONS, q: optionalText(typed) }
  const accounts = useCall('listAccounts', { query }, { keepsLast: true }).data?.accounts ?? []
  const chosen = accounts.find(({ id }) => id === value)
  const change = (text: string): void => {
    setTyped(text)
    const match = accounts.find(({ id, name }) => id === text || name === text)
    if (match !== undefined || text === '') onChange(match?.id ?? '')
  }
  return (
    <div>
      <TextField
        label="Account"
        placeholder="Any"
        list={list}
        value={typed}
        onChange={(event) => change(event.target.value)}
        {...(chosen === undefined ? {} : { hint: chosen.name })}
      />
      <datalist id={list}>
        {accounts.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </datalist>
    </div>
  )
}
