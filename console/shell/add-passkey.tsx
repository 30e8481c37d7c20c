/** Adds a passkey under a name. */
import { useState, type FormEvent } from 'react'
import type { ClientError } from '../../src/client/error.ts'
import { addPasskey, hasPasskeys } from '../api/passkey.ts'
import { signInError } from '../api/sign-in.ts'
import { sendWithProof } from '../api/step-up.ts'
import { Button } from '../ui/button.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'
import { TextField } from '../ui/field.tsx'

export function AddPasskey({ onAdded }: { onAdded: () => void }) {
  const [name, setName] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ClientError | null>(null)
  if (!hasPasskeys()) {
    return <p className="text-sm text-muted">This browser has no passkeys here. They need HTTPS.</p>
  }
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault()
    setBusy(true)
    setError(null)
    try {
      await sendWithProof(() => addPasskey(name.trim()))
      setName('')
      onAdded()
    } catch (problem) {
      setError(signInError(problem))
    }
    setBusy(false)
  }
  return (
    <form onSubmit={(event) => void submit(event)} className="flex flex-col gap-3">
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
        <Button type="submit" busy={busy} disabled={name.trim() === ''}>
          Add passkey
        </Button>
      </div>
    </form>
  )
}
