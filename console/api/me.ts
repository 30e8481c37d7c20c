/** The signed-in member and the scopes of their key. The server enforces them. */
import { useQuery } from '@tanstack/react-query'
import { useEffect } from 'react'
import type { Reply } from '../../src/client/client.ts'
import type { Scope } from '../../src/contract/endpoint.ts'
import { call, isSignedOut, queries } from './query.ts'
import { consoleFetch } from './client.ts'
import { openTabs } from './tabs.ts'
import { apiErrorOf } from '../../src/client/error.ts'
import { accessReasons } from '../../src/contract/reason/reason-access.ts'
import { SESSION_PATH } from '../../src/contract/session.ts'

export type Me = Reply<'getMe'>

/** All tabs share one cookie, so signing in or out affects all of them. */
const sessions = openTabs<'signed in' | 'signed out'>('berth.session')
/** The key of this page; undefined before sign-in. */
let ownKeyId: string | undefined

const meQuery = {
  queryKey: ['getMe', {}],
  queryFn: async ({ signal }: { signal: AbortSignal }): Promise<Me> => {
    const me = await call('getMe', { signal })
    ownKeyId ??= me.key.publicId
    // Another account has signed in: nothing on this page is theirs.
    if (ownKeyId !== me.key.publicId) location.reload()
    return me
  },
  staleTime: 60_000,
}

/** For route guards: rejects with a 401 without a session. */
export function fetchMe(): Promise<Me> {
  return queries.ensureQueryData(meQuery)
}

/** Inside the shell there is always a session. */
export function useMe(): Me {
  const { data } = useQuery(meQuery)
  if (data === undefined) throw new Error('no session')
  return data
}

export function mayUse(me: Me, scope: Scope): boolean {
  return me.key.scopes.includes(scope)
}

/** Why a control is disabled for a key without this scope. */
export function missingScope(scope: Scope): string {
  return accessReasons.missing_scope.sentence({ scope })
}

export function useMay(scope: Scope): boolean {
  return mayUse(useMe(), scope)
}

/** For the shell: checks the session when another tab signs in or out, and on window focus. */
export function useSameAccount(): void {
  useEffect(() => {
    const check = (): void => void checkSession()
    const stop = sessions.listen(check)
    window.addEventListener('focus', check)
    return () => {
      stop()
      window.removeEventListener('focus', check)
    }
  }, [])
}

async function checkSession(): Promise<void> {
  try {
    await queries.fetchQuery({ ...meQuery, staleTime: 0 })
  } catch (error) {
    // The reload leads to sign-in. An unreachable server is reported elsewhere.
    if (isSignedOut(error)) location.reload()
  }
}

export async function signIn(key: string): Promise<void> {
  const response = await consoleFetch(SESSION_PATH, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ key }),
  })
  if (!response.ok) throw apiErrorOf(response.status, response.headers, await response.text())
  queries.clear()
  ownKeyId = undefined
  sessions.send('signed in')
}

/** Leaving the page drops everything that was read. */
export async function signOut(): Promise<void> {
  const response = await consoleFetch(SESSION_PATH, { method: 'DELETE' })
  if (!response.ok) throw apiErrorOf(response.status, response.headers, await response.text())
  sessions.send('signed out')
  location.assign('/sign-in')
}
