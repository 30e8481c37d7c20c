/** Proves who the person is with a passkey. Nothing where the browser has none. */
import { useState } from 'react'
import type { ClientError } from '../../src/client/error.ts'
import { hasPasskeys, signInWithPasskey } from '../api/passkey.ts'
import { signInError } from '../api/sign-in.ts'
import { Button } from '../ui/button.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'

export function PasskeyButton({ onProved }: { onProved: () => void | Promise<void> }) {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ClientError | null>(null)
  if (!hasPasskeys()) return null
  const prove = async (): Promise<void> => {
    setBusy(true)
    setError(null)
    try {
      await signInWithPasskey()
      await onProved()
    } catch (problem) {
      setError(signInError(problem))
    }
    setBusy(false)
  }
  return (
    <div className="flex flex-col gap-2">
      <Button className="w-full" busy={busy} onClick={() => void prove()}>
        Use a passkey
      </Button>
      {error !== null && <ErrorNotice error={error} />}
    </div>
  )
}
