/**
 * Error pages. `Broken` replaces the shell and offers to sign out, because a suspended account could not leave
 * otherwise. `BrokenPage` replaces one page.
 */
import { useMutation } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { useRouter, type ErrorComponentProps } from '@tanstack/react-router'
import { isClientError, TransportError, type ClientError } from '../../src/client/error.ts'
import { signOut } from '../api/me.ts'
import { Button, ButtonLink } from '../ui/button.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'
import { Page } from '../ui/page.tsx'
import { toast } from '../ui/toast.tsx'
import { PageLoadError } from './lazy-page.tsx'
import { Pending } from './pending.tsx'

export function Broken({ error, reset }: ErrorComponentProps) {
  const router = useRouter()
  // Mostly the session check failed, which the router runs first.
  const again = useMutation({
    mutationFn: async () => {
      await router.invalidate()
      reset()
    },
  })
  const leave = useMutation({
    mutationFn: () => signOut(),
    onError: () => toast('Could not reach the server, so you are still signed in. Try again.', 'bad'),
  })
  if (again.isPending) return <Pending />
  return (
    <main>
      <Page title="Something went wrong">
        <ErrorNotice error={clientErrorOf(error)} onRetry={() => again.mutate()} />
        <div className="flex flex-wrap gap-2">
          <ButtonLink to="/sign-in">Sign in with another key</ButtonLink>
          <Button look="quiet" busy={leave.isPending} onClick={() => leave.mutate()}>
            Sign out
          </Button>
        </div>
      </Page>
    </main>
  )
}

function clientErrorOf(error: unknown): ClientError {
  if (isClientError(error)) return error
  return new TransportError('garbled', `This page failed: ${error instanceof Error ? error.message : String(error)}`)
}

export function BrokenPage({ error, reset }: ErrorComponentProps) {
  if (error instanceof PageLoadError) return <UnloadedPage error={error} onLoaded={reset} />
  return (
    <Page title="Something went wrong">
      <ErrorNotice error={clientErrorOf(error)} onRetry={reset} />
    </Page>
  )
}

const RETRY_MS = 2_000
/** After a server upgrade the file has another name, which a reload finds. Reloads once. */
const RELOADED_KEY = 'berth.reloaded-for-page'

/** Loads the page when the server responds again. */
function UnloadedPage({ error, onLoaded }: { error: PageLoadError; onLoaded: () => void }) {
  const [isServerUp, setServerUp] = useState(false)
  useEffect(() => {
    const stop = new AbortController()
    const retry = async (): Promise<void> => {
      const isUp = await answers(stop.signal)
      if (stop.signal.aborted) return
      setServerUp(isUp)
      const isLoaded = isUp && (await error.retry())
      if (stop.signal.aborted) return
      if (isLoaded) {
        sessionStorage.removeItem(RELOADED_KEY)
        return onLoaded()
      }
      if (isUp && sessionStorage.getItem(RELOADED_KEY) === null) {
        sessionStorage.setItem(RELOADED_KEY, 'yes')
        return location.reload()
      }
      timer = setTimeout(() => void retry(), RETRY_MS)
    }
    let timer = setTimeout(() => void retry(), 0)
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [error, onLoaded])
  const problem = isServerUp
    ? new TransportError('garbled', 'This page could not be loaded.')
    : new TransportError('unreachable', 'The server is unreachable, so this page could not be loaded.')
  return (
    <Page title="Page not loaded">
      <ErrorNotice error={problem} isRead />
    </Page>
  )
}

async function answers(signal: AbortSignal): Promise<boolean> {
  try {
    return (await fetch('/healthz', { signal, cache: 'no-store' })).ok
  } catch {
    // Unreachable: the caller retries.
    return false
  }
}
