/** The ways to sign in as a person, as the sign-in page and the step-up dialog use them. */
import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { apiErrorOf, isClientError, TransportError, unreachable, type ClientError } from '../../src/client/error.ts'
import { CODE_PATH, REDEEM_CODE_PATH, SIGN_IN_PATH } from '../../src/contract/session.ts'
import type { SignInWays } from '../../src/contract/session-body.ts'
import { consoleFetch } from './client.ts'
import { postConsole } from './me.ts'

export function useSignInWays(): UseQueryResult<SignInWays, ClientError> {
  return useQuery<SignInWays, ClientError>({ queryKey: ['signInWays'], queryFn: readWays, staleTime: 60_000 })
}

async function readWays(): Promise<SignInWays> {
  const response = await consoleFetch(SIGN_IN_PATH)
  if (!response.ok) throw apiErrorOf(response.status, response.headers, await response.text())
  return (await response.json()) as SignInWays
}

export async function sendCode(email: string): Promise<void> {
  await postConsole(CODE_PATH, { email })
}

export async function redeemCode(code: string): Promise<void> {
  await postConsole(REDEEM_CODE_PATH, { code })
}

/** Why the browser goes to the provider: to sign in, or to prove again who the person is. */
type Purpose = 'sign-in' | 'step-up'

/** The provider's answer leads to `next`. */
export function providerUrl(id: string, next: string, purpose: Purpose = 'sign-in'): string {
  const query = new URLSearchParams({ return: next, ...(purpose === 'sign-in' ? {} : { purpose }) })
  return `${SIGN_IN_PATH}/${encodeURIComponent(id)}?${query.toString()}`
}

/** Leaves the page. */
export function goToProvider(id: string, next: string): void {
  location.assign(providerUrl(id, next))
}

/** A failure of the paths above as the notices show it. */
export function signInError(problem: unknown): ClientError {
  if (isClientError(problem)) return problem
  return problem instanceof TypeError
    ? unreachable(location.origin, problem)
    : new TransportError('garbled', problem instanceof Error ? problem.message : String(problem))
}
