/** The signed-in member and the scopes of their key. The server enforces them. */
import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { useEffect } from 'react'
import type { Reply } from '../../src/client/client.ts'
import type { Scope } from '../../src/contract/endpoint.ts'
import { call, isSignedOut, queries, useCall } from './query.ts'
import { consoleFetch } from './client.ts'
import { openTabs } from './tabs.ts'
import { apiErrorOf, isRefusal, type ApiError, type ClientError } from '../../src/client/error.ts'
import { missingScopeReason } from '../../src/contract/reason/missing-scope.ts'
import { SESSION_PATH } from '../../src/contract/session.ts'

export type Me = Reply<'getMe'>

/** All tabs share one cookie, so signing in or out affects all of them. */
const sessions = openTabs<'signed in' | 'signed out'>('berth.session')
/** Invitations raise no event. */
const PERSON_EVERY_MS = 120_000
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

/** A person is signed in, not a key. */
export function isPerson(me: Me): boolean {
  return me.key.kind === 'person'
}

export function mayUse(me: Me, scope: Scope): boolean {
  return me.key.scopes.includes(scope)
}

/** Why a control is disabled for a key without this scope. */
export function missingScope(scope: Scope): string {
  return missingScopeReason.sentence({ scope })
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
    // The reload leads to sign-in, or to what the account requires. An unreachable server is reported elsewhere.
    if (isSignedOut(error) || isUnmet(error)) location.reload()
  }
}

/** The session may not act in its account, or has none. The person can change that. */
export function isUnmet(error: unknown): error is ApiError {
  return (['no_account', 'factor_required', 'sso_required'] as const).some((reason) => isRefusal(error, reason))
}

/** The person who is signed in, and what is offered to them. Fails for sessions with a key. */
export function usePerson(enabled = true): UseQueryResult<Reply<'getPerson'>, ClientError> {
  return useCall('getPerson', undefined, { enabled, ...(enabled ? { everyMs: PERSON_EVERY_MS } : {}) })
}

export async function signIn(key: string): Promise<void> {
  await postConsole(SESSION_PATH, { key })
}

/** Nothing that was read belongs to the session or account from now on. */
export function noteNewSession(): void {
  queries.clear()
  ownKeyId = undefined
  sessions.send('signed in')
}

/** One of the paths of the console that are not operations. Throws what the server refuses. */
export async function postConsole(path: `/${string}`, body: object): Promise<Response> {
  const headers = { 'Content-Type': 'application/json' }
  const response = await consoleFetch(path, { method: 'POST', headers, body: JSON.stringify(body) })
  if (!response.ok) throw apiErrorOf(response.status, response.headers, await response.text())
  return response
}

/** Leaving the page drops everything that was read. */
export async function signOut(next?: string): Promise<void> {
  const response = await consoleFetch(SESSION_PATH, { method: 'DELETE' })
  if (!response.ok) throw apiErrorOf(response.status, response.headers, await response.text())
  sessions.send('signed out')
  location.assign(next === undefined ? '/sign-in' : `/sign-in?next=${encodeURIComponent(next)}`)
}
