/** The interface to an identity provider, whatever its protocol is (sso-oidc.ts, sso-github.ts). */
import type { Instant } from '../../base/instant.ts'
import type { IdentityProvider } from '../../store/account/identity-provider.ts'
import { ProviderUnreachable, type ProviderFetch } from './sso-http.ts'

/** The issuer of those who name none. */
export const GITHUB = 'https://github.com'

export interface ProviderSettings {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string | undefined
  readonly fetch: ProviderFetch
  /** The operator has set it up: it may be inside of the operator's network. */
  readonly allowPrivate: boolean
}

/** Secrets that tie an answer to the browser that requested it. */
export interface FlowSecrets {
  readonly state: string
  readonly nonce: string
  /** The code verifier of PKCE. */
  readonly verifier: string
}

export interface SignInRequest extends FlowSecrets {
  readonly redirectUri: string
  /** The person must prove anew who they are. */
  readonly isStepUp: boolean
}

export interface SignInAnswer extends SignInRequest {
  /** The URL to which the provider has sent the browser. */
  readonly search: URLSearchParams
  readonly beganAt: Instant
  readonly now: Instant
}

/** Who somebody is at the provider. */
export interface ProviderPerson {
  readonly issuer: string
  readonly subject: string
  readonly email: string | null
  /** The provider has said so, as JSON `true`. */
  readonly isEmailVerified: boolean
  readonly name: string | null
  /** The organization, as Google states it in `hd`. */
  readonly hostedDomain: string | null
  /** A second factor was shown there. */
  readonly hasFactor: boolean
}

export interface ProviderProblem {
  readonly kind: 'problem'
  readonly reason: 'sso_provider_down' | 'sso_rejected' | 'sso_denied' | 'sso_cannot_confirm' | 'sso_no_address'
  /** The detail for operators and logs; it contains no secret. */
  readonly detail: string
}

export type Outcome<T> = { readonly kind: 'done'; readonly value: T } | ProviderProblem

export interface ProviderCheck {
  readonly check: 'settings' | 'reachable' | 'keys' | 'security'
  readonly result: 'passed' | 'failed' | 'not_tried'
  readonly detail: string
}

export interface ProviderProtocol {
  /** The address at the provider that the browser opens. */
  begin(settings: ProviderSettings, request: SignInRequest): Promise<Outcome<URL>>
  finish(settings: ProviderSettings, answer: SignInAnswer): Promise<Outcome<ProviderPerson>>
  check(settings: ProviderSettings): Promise<ProviderCheck[]>
}

export function done<T>(value: T): Outcome<T> {
  return { kind: 'done', value }
}

export function problem(reason: ProviderProblem['reason'], detail: string): ProviderProblem {
  return { kind: 'problem', reason, detail }
}

/** The provider's own words are not repeated, since whoever opens a callback URL chooses them. */
export function problemOf(error: unknown): ProviderProblem {
  const unreachable = causesOf(error).find((one) => one instanceof ProviderUnreachable)
  if (unreachable !== undefined) return problem('sso_provider_down', unreachable.message)
  const text = causesOf(error)
    .map(({ message }) => message)
    .join(': ')
  return problem('sso_rejected', text)
}

const MAX_CAUSES = 5

function causesOf(error: unknown): Error[] {
  const causes: Error[] = []
  for (let one = error; one instanceof Error && causes.length < MAX_CAUSES; one = one.cause) causes.push(one)
  return causes
}

/** The providers of the database, each by its protocol. */
export interface SignInProviders {
  begin(provider: IdentityProvider, request: SignInRequest): Promise<Outcome<URL>>
  finish(provider: IdentityProvider, answer: SignInAnswer): Promise<Outcome<ProviderPerson>>
  check(provider: IdentityProvider): Promise<ProviderCheck[]>
}
