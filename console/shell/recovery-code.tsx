/** A recovery code in place of a passkey that was lost. Nothing for people who have none left. */
import { useState, type FormEvent } from 'react'
import { redeemRecoveryCode } from '../api/passkey.ts'
import { useCall } from '../api/query.ts'
import { Button } from '../ui/button.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'
import { TextField } from '../ui/field.tsx'
import { useAttempt } from './attempt.ts'
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
  const { attempt, busy, error } = useAttempt<'redeem'>()
  const form = useFieldFocus()
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    void attempt('redeem', async () => {
      await redeemRecoveryCode(code)
      onProved()
    })
  }
  return (
    <form ref={form} onSubmit={submit} className="flex flex-col gap-3">
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
        <Button type="submit" busy={busy !== undefined} disabled={code.trim() === ''}>
          Use this code
        </Button>
      </div>
    </form>
  )
}
