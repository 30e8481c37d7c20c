/** Adds a passkey under a name. */
import { useState, type FormEvent } from 'react'
import { addPasskey, hasPasskeys } from '../api/passkey.ts'
import { sendWithProof } from '../api/step-up.ts'
import { Button } from '../ui/button.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'
import { TextField } from '../ui/field.tsx'
import { useAttempt } from './attempt.ts'

export function AddPasskey({ onAdded }: { onAdded: () => void }) {
  const [name, setName] = useState('')
  const { attempt, busy, error } = useAttempt<'add'>()
  if (!hasPasskeys()) {
    return <p className="text-sm text-muted">This browser has no passkeys here. They need HTTPS.</p>
  }
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    void attempt('add', async () => {
      await sendWithProof(() => addPasskey(name.trim()))
      setName('')
      onAdded()
    })
  }
  return (
    <form onSubmit={submit} className="flex flex-col gap-3">
      <TextField
        label="Name of a new passkey"
        maxLength={100}
        placeholder="Laptop"
        value={name}
        onChange={(event) => setName(event.target.value)}
        hint="The browser asks for your fingerprint, face, PIN or security key."
      />
      {error !== null && <ErrorNotice error={error} />}
      <div>
        <Button type="submit" busy={busy !== undefined} disabled={name.trim() === ''}>
          Add passkey
        </Button>
      </div>
    </form>
  )
}
