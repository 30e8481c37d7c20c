/** Proves who the person is with a passkey. Nothing where the browser has none. */
import { hasPasskeys, signInWithPasskey } from '../api/passkey.ts'
import { Button } from '../ui/button.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'
import { useAttempt } from './attempt.ts'

export function PasskeyButton({ onProved }: { onProved: () => void | Promise<void> }) {
  const { attempt, busy, error } = useAttempt<'prove'>()
  if (!hasPasskeys()) return null
  const prove = (): void =>
    void attempt('prove', async () => {
      await signInWithPasskey()
      await onProved()
    })
  return (
    <div className="flex flex-col gap-2">
      <Button className="w-full" busy={busy !== undefined} onClick={prove}>
        Use a passkey
      </Button>
      {error !== null && <ErrorNotice error={error} />}
    </div>
  )
}
