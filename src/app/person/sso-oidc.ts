/**
 * OpenID Connect: the code flow with PKCE. Settings of a provider are cached for a minute. The signature of the ID token
 * is always verified, with four algorithms only, and its times are compared with our clock.
 */
import * as oidc from 'openid-client'
import { systemClock, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { isProviderUrl, ProviderUnreachable } from './sso-http.ts'
import {
  done,
  problem,
  problemOf,
  type Outcome,
  type ProviderCheck,
  type ProviderPerson,
  type ProviderProtocol,
  type ProviderSettings,
  type SignInAnswer,
  type SignInRequest,
} from './sso-protocol.ts'

const ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA']
const SCOPES = 'openid email profile'

interface Cached {
  readonly server: oidc.ServerMetadata
  readonly at: Instant
  /** The keys of the provider; the library reads them again after some minutes, or when one is missing. */
  keys: oidc.ExportedJWKSCache | undefined
}

type Claims = Readonly<Record<string, unknown>>

export class OidcProtocol implements ProviderProtocol {
  readonly #cache = new Map<string, Cached>()

  async begin(settings: ProviderSettings, request: SignInRequest): Promise<Outcome<URL>> {
    try {
      const cached = await this.#read(settings, limits.ssoSettingsMs)
      const config = configure(settings, cached, systemClock.now())
      return done(
        oidc.buildAuthorizationUrl(config, {
          redirect_uri: request.redirectUri,
          scope: SCOPES,
          state: request.state,
          nonce: request.nonce,
          code_challenge: await oidc.calculatePKCECodeChallenge(request.verifier),
          code_challenge_method: 'S256',
          ...(request.isStepUp ? { prompt: 'login', max_age: '0' } : {}),
        }),
      )
    } catch (error) {
      return atBegin(error)
    }
  }

  async finish(settings: ProviderSettings, answer: SignInAnswer): Promise<Outcome<ProviderPerson>> {
    const refused = answer.search.get('error')
    try {
      const cached = await this.#read(settings, limits.ssoFlowMs)
      const config = configure(settings, cached, answer.now)
      const url = new URL(answer.redirectUri)
      url.search = answer.search.toString()
      const tokens = await oidc.authorizationCodeGrant(config, url, {
        expectedState: answer.state,
        expectedNonce: answer.nonce,
        pkceCodeVerifier: answer.verifier,
        idTokenExpected: true,
        // The person proved who they are after the flow began.
        ...(answer.isStepUp ? { maxAge: Math.ceil((answer.now - answer.beganAt) / 1_000) } : {}),
      })
      cached.keys = oidc.getJwksCache(config)
      const claims = tokens.claims()
      if (claims === undefined) return problem('sso_rejected', 'there is no ID token')
      if (!isOfThisFlow(claims.iat, answer)) return problem('sso_rejected', 'the ID token is not of this sign-in')
      if (textOf(claims.sub) !== claims.sub) return problem('sso_rejected', 'the subject is not usable')
      const person = await this.#withUserInfo(config, tokens.access_token, claims)
      return done(personOf(claims, person))
    } catch (error) {
      return refused === null
        ? problemOf(error)
        : problem('sso_denied', `the provider answered: ${refused.slice(0, 100)}`)
    }
  }

  async check(settings: ProviderSettings): Promise<ProviderCheck[]> {
    let cached: Cached
    try {
      cached = await this.#read(settings, 0)
    } catch (error) {
      const { detail } = problemOf(error)
      return [
        { check: 'reachable', result: 'failed', detail },
        { check: 'keys', result: 'not_tried', detail: 'Its settings could not be read' },
        { check: 'security', result: 'not_tried', detail: 'Its settings could not be read' },
      ]
    }
    const { issuer, code_challenge_methods_supported: methods } = cached.server
    const hasPkce = methods === undefined || methods.includes('S256')
    return [
      { check: 'reachable', result: 'passed', detail: `The issuer is ${issuer}` },
      await checkKeys(settings, cached.server.jwks_uri ?? ''),
      {
        check: 'security',
        result: hasPkce ? 'passed' : 'failed',
        detail: `Signatures: ${algorithmsOf(cached.server).join(', ')}. PKCE: ${methods?.join(', ') ?? 'not stated'}`,
      },
    ]
  }

  /** Adds the user info, because some providers state the address only there. */
  async #withUserInfo(config: oidc.Configuration, accessToken: string, claims: oidc.IDToken): Promise<Claims> {
    if (claims.email !== undefined || config.serverMetadata().userinfo_endpoint === undefined) return claims
    return oidc.fetchUserInfo(config, accessToken, claims.sub)
  }

  async #read(settings: ProviderSettings, maxAgeMs: number): Promise<Cached> {
    const { issuer, clientId, allowPrivate, fetch } = settings
    const key = `${allowPrivate} ${issuer}`
    const now = systemClock.now()
    const cached = this.#cache.get(key)
    if (cached !== undefined && now - cached.at < maxAgeMs) return cached
    const config = await oidc.discovery(new URL(issuer), clientId, undefined, oidc.None(), {
      [oidc.customFetch]: fetch,
      timeout: limits.ssoTimeoutMs / 1_000,
      // Whether HTTP is allowed is decided for each call (sso-http.ts).
      execute: [oidc.allowInsecureRequests],
    })
    const server = checkServer(config.serverMetadata(), settings)
    const fresh: Cached = { server, at: now, keys: cached?.keys }
    this.#cache.delete(key)
    this.#cache.set(key, fresh)
    for (const oldest of this.#cache.keys()) {
      if (this.#cache.size <= limits.identityProviders) break
      this.#cache.delete(oldest)
    }
    return fresh
  }
}

/** The issuer must be that of the settings, to the letter: templates such as Entra's `common` are for no single tenant. */
function checkServer(server: oidc.ServerMetadata, { issuer, allowPrivate }: ProviderSettings): oidc.ServerMetadata {
  if (new URL(server.issuer).href !== new URL(issuer).href)
    throw new ProviderUnreachable(`it says that its issuer is ${server.issuer.slice(0, 200)}`)
  for (const name of ['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const)
    if (!isProviderUrl(server[name] ?? '', allowPrivate)) throw new ProviderUnreachable(`its ${name} is not usable`)
  const algorithms = algorithmsOf(server)
  if (algorithms.length === 0) throw new ProviderUnreachable(`it signs with none of ${ALGORITHMS.join(', ')}`)
  return { ...server, id_token_signing_alg_values_supported: algorithms }
}

function algorithmsOf({ id_token_signing_alg_values_supported: all }: oidc.ServerMetadata): string[] {
  return ALGORITHMS.filter((one) => all === undefined || all.includes(one))
}

function configure(settings: ProviderSettings, { server, keys }: Cached, now: Instant): oidc.Configuration {
  const { clientId, clientSecret, fetch } = settings
  const config = new oidc.Configuration(
    server,
    clientId,
    {
      [oidc.clockSkew]: Math.round((now - systemClock.now()) / 1_000),
      [oidc.clockTolerance]: limits.ssoClockToleranceS,
    },
    authenticationOf(server, clientSecret),
  )
  config[oidc.customFetch] = fetch
  config.timeout = limits.ssoTimeoutMs / 1_000
  oidc.allowInsecureRequests(config)
  // Without it the library trusts the connection to the token endpoint in place of the signature.
  oidc.enableNonRepudiationChecks(config)
  if (keys !== undefined) oidc.setJwksCache(config, keys)
  return config
}

function authenticationOf(server: oidc.ServerMetadata, secret: string | undefined): oidc.ClientAuth {
  if (secret === undefined) return oidc.None()
  const takesPost = server.token_endpoint_auth_methods_supported?.includes('client_secret_post') === true
  return takesPost ? oidc.ClientSecretPost(secret) : oidc.ClientSecretBasic(secret)
}

async function checkKeys({ fetch }: ProviderSettings, url: string): Promise<ProviderCheck> {
  try {
    const answer = await fetch(url, { headers: { Accept: 'application/json' } })
    const { keys } = (await answer.json()) as { keys?: unknown }
    const count = Array.isArray(keys) ? keys.length : 0
    return { check: 'keys', result: count > 0 ? 'passed' : 'failed', detail: `It has ${count} keys` }
  } catch (error) {
    return { check: 'keys', result: 'failed', detail: problemOf(error).detail }
  }
}

/** Without the provider's settings nobody can sign in there, whatever the cause is. */
function atBegin(error: unknown): Outcome<URL> {
  return problem('sso_provider_down', problemOf(error).detail)
}

function isOfThisFlow(issuedAtS: number, { beganAt, now }: SignInAnswer): boolean {
  const tolerance = limits.ssoClockToleranceS
  return issuedAtS >= beganAt / 1_000 - tolerance && issuedAtS <= now / 1_000 + tolerance
}

function personOf(claims: oidc.IDToken, stated: Claims): ProviderPerson {
  return {
    issuer: claims.iss,
    subject: claims.sub,
    email: textOf(stated.email),
    isEmailVerified: stated.email_verified === true,
    name: textOf(stated.name),
    hostedDomain: textOf(claims.hd),
    hasFactor: provesFactor(claims.amr),
  }
}

/** null: there is none, or one that no column takes. */
function textOf(claim: unknown): string | null {
  const text = typeof claim === 'string' ? claim.trim() : ''
  const isUsable = text !== '' && text.length <= limits.nameChars && !/\p{Cc}/u.test(text)
  return isUsable ? text : null
}

const knowledge = new Set(['pwd', 'pin', 'kba'])
const possession = new Set(['otp', 'hwk', 'swk', 'sms', 'tel', 'sc', 'pop'])

/** RFC 8176: `mfa`, or methods of two kinds. */
function provesFactor(amr: unknown): boolean {
  if (!Array.isArray(amr)) return false
  return amr.includes('mfa') || (amr.some((one) => knowledge.has(one)) && amr.some((one) => possession.has(one)))
}
