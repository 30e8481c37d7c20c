/** Who is signed in, and what their key may do: navigation and buttons ask here, the server decides. */
import { useQuery } from '@tanstack/react-query'
import { useEffect } from 'react'
import type { Reply } from '../../src/client/client.ts'
import type { Scope } from '../../src/contract/endpoint.ts'
import { call, isSignedOut, queries } from './query.ts'
import { consoleFetch } from './client.ts'
import { openTabs } from './tabs.ts'
import { apiErrorOf } from '../../src/client/error.ts'
import { reasons } from '../../src/contract/reasons.ts'
import { SESSION_PATH } from '../../src/contract/session.ts'

export type Me = Reply<'getMe'>

/** All tabs of a browser have one cookie: who signs in or out here does so in the others too. */
const sessions = openTabs<'signed in' | 'signed out'>('berth.session')
/** Whose page this is. undefined: nobody has signed in yet. */
let ownKeyId: string | undefined

const meQuery = {
  queryKey: ['getMe', {}],
  queryFn: async ({ signal }: { signal: AbortSignal }): Promise<Me> => {
    const me = await call('getMe', { signal })
    ownKeyId ??= me.key.publicId
    // Somebody else by now: nothing of what is on this page is theirs, and what it would do, it would do for them.
    if (ownKeyId !== me.key.publicId) location.reload()
    return me
  },
  staleTime: 60_000,
}

/** For route guards: rejects with the 401 when nobody is signed in. */
export function fetchMe(): Promise<Me> {
  return queries.ensureQueryData(meQuery)
}

/** Inside the shell somebody is signed in, so that there is always an answer. */
export function useMe(): Me {
  const { data } = useQuery(meQuery)
  if (data === undefined) throw new Error('nobody is signed in')
  return data
}

export function mayUse(me: Me, scope: Scope): boolean {
  return me.key.scopes.includes(scope)
}

/** Why a control is disabled for a key without this scope. */
export function missingScope(scope: Scope): string {
  return reasons.missing_scope.sentence({ scope })
}

export function useMay(scope: Scope): boolean {
  return mayUse(useMe(), scope)
}

/** For the shell: looks again who is signed in when another tab tells of a change, and when the window is turned to. */
export function useSameAccount(): void {
  useEffect(() => {
    const look = (): void => void lookWhoIsSignedIn()
    const stop = sessions.listen(look)
    window.addEventListener('focus', look)
    return () => {
      stop()
      window.removeEventListener('focus', look)
    }
  }, [])
}

async function lookWhoIsSignedIn(): Promise<void> {
  try {
    await queries.fetchQuery({ ...meQuery, staleTime: 0 })
  } catch (error) {
    // The page leads to the sign-in page by itself. A server that does not answer is told elsewhere.
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
  sessions.tell('signed in')
}

/** Everything that was read goes with the page. */
export async function signOut(): Promise<void> {
  const response = await consoleFetch(SESSION_PATH, { method: 'DELETE' })
  if (!response.ok) throw apiErrorOf(response.status, response.headers, await response.text())
  sessions.tell('signed out')
  location.assign('/sign-in')
}
