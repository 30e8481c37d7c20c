/** Signing in with an API key. */
import { useState, type FormEvent } from 'react'
import type { ConsoleWelcome } from '../../../src/contract/session-body.ts'
import { signIn } from '../../api/me.ts'
import { useAttempt } from '../../shell/attempt.ts'
import { useFieldFocus } from '../../shell/code-form.tsx'
import { PublicCard } from '../../shell/public-page.tsx'
import { Button } from '../../ui/button.tsx'
import { CopyLine } from '../../ui/copy.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { TextField } from '../../ui/field.tsx'
import { useEnter } from './enter.ts'

export function FirstRun({ demoKey, welcome }: { demoKey: string; welcome: ConsoleWelcome }) {
  const enter = useEnter('/tour')
  const { attempt, busy, error } = useAttempt<'sign-in'>()
  const start = (): void =>
    void attempt('sign-in', async () => {
      await signIn(demoKey)
      await enter()
    })
  return (
    <>
      <p className="text-muted">
        Your GPU cloud is running on this machine. A demo account with $20,000 of demo credit is ready. Its API key
        works in the console, on the command line and with the API:
      </p>
      <CopyLine text={demoKey} label="Demo key" />
      <ol className="flex list-decimal flex-col gap-1 pl-5 text-sm text-muted">
        <li>Rent a machine and log in.</li>
        <li>Chat with a model that runs on this server.</li>
        <li>See what both cost.</li>
      </ol>
      {error !== null && <ErrorNotice error={error} />}
      <Button look="primary" busy={busy !== undefined} onClick={start}>
        Start the tour
      </Button>
      <details className="text-sm">
        <summary className="cursor-pointer font-medium">Sign in with another key</summary>
        <div className="mt-3">
          <KeyForm welcome={welcome} />
        </div>
      </details>
    </>
  )
}

/** isOnly: it is what the person came for, and gets the focus. */
export function KeyForm({ welcome, isOnly = false }: { welcome: ConsoleWelcome; isOnly?: boolean }) {
  const [key, setKey] = useState('')
  const enter = useEnter()
  const form = useFieldFocus(isOnly)
  const { attempt, busy, error } = useAttempt<'sign-in'>()
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    void attempt('sign-in', async () => {
      await signIn(key.trim())
      await enter()
    })
  }
  return (
    <PublicCard>
      <form ref={form} onSubmit={submit} className="flex flex-col gap-4">
        <TextField
          label="API key"
          type="password"
          required
          autoComplete="current-password"
          placeholder="bk_…"
          value={key}
          onChange={(event) => setKey(event.target.value)}
          hint={<KeyHint welcome={welcome} />}
        />
        {error !== null && <ErrorNotice error={error} />}
        <Button look="primary" type="submit" busy={busy !== undefined} disabled={key.trim() === ''}>
          Sign in
        </Button>
      </form>
    </PublicCard>
  )
}

/** File paths are only known on the server's own machine. */
function KeyHint({ welcome }: { welcome: ConsoleWelcome }) {
  const { keyFile, operatorKeyFile } = welcome
  if (keyFile === undefined && operatorKeyFile === undefined) {
    return 'Ask the operator of this server for a key. The key is not stored in the browser.'
  }
  return (
    <>
      {keyFile !== undefined && (
        <>
          The demo account’s key is in <code className="font-mono">{keyFile}</code>.{' '}
        </>
      )}
      {operatorKeyFile !== undefined && (
        <>
          The operator key is in <code className="font-mono">{operatorKeyFile}</code>.
        </>
      )}
    </>
  )
}
