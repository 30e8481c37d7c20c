/** A recovery code in place of a passkey that was lost. Nothing for people who have none left. */
import { useState, type FormEvent } from 'react'
import type { ClientError } from '../../src/client/error.ts'
import { redeemRecoveryCode } from '../api/passkey.ts'
import { useCall } from '../api/query.ts'
import { signInError } from '../api/sign-in.ts'
import { Button } from '../ui/button.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'
import { TextField } from '../ui/field.tsx'
import { useFieldFocus } from './code-form.tsx'

export function RecoveryCode({ onProved }: { onProved: () => void }) {
  const factors = useCall('listFactors')
  const [isOpen, setOpen] = useState(false)
  if (isOpen) return <RecoveryForm onProved={onProved} />
  if (factors.data === undefined || factors.data.recoveryCodes.unused === 0) return null
  return (
    <Button className="w-full" onClick={() => setOpen(true)}>
      Use a recovery code
    </Button>
  )
}

function RecoveryForm({ onProved }: { onProved: () => void }) {
  const [code, setCode] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ClientError | null>(null)
  const form = useFieldFocus()
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault()
    setBusy(true)
    setError(null)
    try {
      await redeemRecoveryCode(code)
      onProved()
    } catch (problem) {
      setError(signInError(problem))
    }
    setBusy(false)
  }
  return (
    <form ref={form} onSubmit={(event) => void submit(event)} className="flex flex-col gap-3">
      <TextField
        label="Recovery code"
        required
        autoCapitalize="none"
        spellCheck={false}
        maxLength={50}
        placeholder="abcd-efgh-jkmn"
        value={code}
        onChange={(event) => setCode(event.target.value)}
        hint="Each code works once. Cross it out afterwards, and add a new passkey under Security."
      />
      {error !== null && <ErrorNotice error={error} />}
      <div>
        <Button type="submit" busy={busy} disabled={code.trim() === ''}>
          Use this code
        </Button>
      </div>
    </form>
  )
}
