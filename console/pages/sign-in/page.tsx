/** Signing in with an API key. The link printed by the first start also shows the key of the demo account. */
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, useRouter } from '@tanstack/react-router'
import { useEffect, useState, type FormEvent, type ReactNode } from 'react'
import { isClientError, unreachable, type ClientError } from '../../../src/client/error.ts'
import { consoleFetch } from '../../api/client.ts'
import { signIn } from '../../api/me.ts'
import { Button } from '../../ui/button.tsx'
import { CopyLine } from '../../ui/copy.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { TextField } from '../../ui/field.tsx'
import { WELCOME_PATH } from '../../../src/contract/session.ts'
import type { ConsoleWelcome } from '../../../src/contract/session-body.ts'

const route = getRouteApi('/sign-in')

export function SignInPage() {
  const welcome = useQuery({ queryKey: ['welcome'], queryFn: readWelcome, staleTime: Infinity, retry: false })
  useEffect(() => {
    document.title = 'Sign in · Berth'
  }, [])
  const { demoKey } = welcome.data ?? {}
  return (
    <main className="mx-auto flex min-h-dvh w-full max-w-xl flex-col justify-center gap-6 p-4 sm:p-6">
      <div className="flex items-center gap-3">
        <img src="/favicon.svg" alt="" width="36" height="36" />
        <h1 className="text-2xl font-semibold">{demoKey === undefined ? 'Sign in to Berth' : 'Welcome to Berth'}</h1>
      </div>
      {welcome.isPending ? (
        <div className="h-72" role="status" aria-label="Loading" />
      ) : demoKey === undefined ? (
        <KeyForm hint={<KeyHint welcome={welcome.data ?? {}} />} />
      ) : (
        <FirstRun demoKey={demoKey} welcome={welcome.data ?? {}} />
      )}
    </main>
  )
}

/** The link's token works once and is removed from the address bar as soon as it is used. */
async function readWelcome(): Promise<ConsoleWelcome> {
  const [, token] = /^#welcome=([\w-]+)$/.exec(location.hash) ?? []
  if (token !== undefined) {
    history.replaceState(history.state, '', location.pathname + location.search)
    const body = JSON.stringify({ token })
    const headers = { 'Content-Type': 'application/json' }
    const opened = await consoleFetch(WELCOME_PATH, { method: 'POST', headers, body })
    if (opened.ok) return (await opened.json()) as ConsoleWelcome
  }
  const response = await consoleFetch(WELCOME_PATH)
  return response.ok ? ((await response.json()) as ConsoleWelcome) : {}
}

/** Signs in and opens the page that was requested. */
function useSignIn(then: '/tour' | undefined): {
  enter: (key: string) => Promise<void>
  busy: boolean
  error: ClientError | null
} {
  const router = useRouter()
  const { next } = route.useSearch()
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ClientError | null>(null)
  const enter = async (key: string): Promise<void> => {
    setBusy(true)
    setError(null)
    try {
      await signIn(key)
      await router.navigate({ href: next ?? then ?? '/', replace: true })
    } catch (problem) {
      setError(isClientError(problem) ? problem : unreachable(location.origin, problem))
      setBusy(false)
    }
  }
  return { enter, busy, error }
}

function FirstRun({ demoKey, welcome }: { demoKey: string; welcome: ConsoleWelcome }) {
  const { enter, busy, error } = useSignIn('/tour')
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
      <Button look="primary" busy={busy} onClick={() => void enter(demoKey)}>
        Start the tour
      </Button>
      <details className="text-sm">
        <summary className="cursor-pointer font-medium">Sign in with another key</summary>
        <div className="mt-3">
          <KeyForm hint={<KeyHint welcome={welcome} />} />
        </div>
      </details>
    </>
  )
}

function KeyForm({ hint }: { hint: ReactNode }) {
  const [key, setKey] = useState('')
  const { enter, busy, error } = useSignIn(undefined)
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    void enter(key.trim())
  }
  return (
    <form onSubmit={submit} className="flex flex-col gap-4 rounded-lg border border-line bg-surface p-5">
      <TextField
        label="API key"
        type="password"
        required
        autoComplete="current-password"
        placeholder="bk_…"
        value={key}
        onChange={(event) => setKey(event.target.value)}
        hint={hint}
      />
      {error !== null && <ErrorNotice error={error} />}
      <Button look="primary" type="submit" busy={busy} disabled={key.trim() === ''}>
        Sign in
      </Button>
    </form>
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
