/** Who is signed in, and what their key may do: navigation and buttons ask here, the server decides. */
import { useQuery } from '@tanstack/react-query'
import type { Reply } from '../../src/client/client.ts'
import type { Scope } from '../../src/contract/endpoint.ts'
import { call, queries } from './query.ts'
import { consoleFetch } from './client.ts'
import { apiErrorOf } from '../../src/client/error.ts'
import { SESSION_PATH } from '../../src/contract/session.ts'

export type Me = Reply<'getMe'>

const meQuery = {
  queryKey: ['getMe', {}],
  queryFn: ({ signal }: { signal: AbortSignal }) => call('getMe', { signal }),
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

export function useMay(scope: Scope): boolean {
  return mayUse(useMe(), scope)
}

export async function signIn(key: string): Promise<void> {
  const response = await consoleFetch(SESSION_PATH, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ key }),
  })
  if (!response.ok) throw apiErrorOf(response.status, response.headers, await response.text())
  queries.clear()
}

/** Everything that was read goes with the page. */
export async function signOut(): Promise<void> {
  const response = await consoleFetch(SESSION_PATH, { method: 'DELETE' })
  if (!response.ok) throw apiErrorOf(response.status, response.headers, await response.text())
  location.assign('/sign-in')
}
