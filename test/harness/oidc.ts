/**
 * A real OpenID provider in this process. A test chooses who signs in next and what the token says about them, or how the
 * provider fails. Everybody who comes is signed in at once, without a page.
 */
import { createHmac, generateKeyPairSync, sign, type KeyObject } from 'node:crypto'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
// @ts-expect-error The package has no types.
import UntypedProvider from 'oidc-provider'
import { systemClock } from '../../src/base/instant.ts'

interface Context {
  readonly oidc?: { readonly route?: string }
  readonly body: Record<string, unknown>
}

interface Grant {
  addOIDCScope(scope: string): void
  save(): Promise<string>
}

/** The part of the package that is used here. */
interface Provider {
  readonly Grant: new (of: { readonly clientId: string; readonly accountId: string }) => Grant
  use(middleware: (context: Context, next: () => Promise<void>) => Promise<void>): void
  callback(): http.RequestListener
  interactionFinished(request: http.IncomingMessage, response: http.ServerResponse, result: object): Promise<void>
}

const OidcProvider = UntypedProvider as new (issuer: string, configuration: object) => Provider

export type OidcFault =
  | 'wrong key'
  | 'wrong nonce'
  | 'wrong audience'
  | 'wrong issuer'
  | 'alg none'
  | 'HS256'
  | 'old token'
  | 'old sign-in'
  | 'wrong iss parameter'
  | 'denied'
  | 'slow'
  | 'down'
  | 'endless'

export interface OidcPerson {
  readonly sub: string
  /** Of the ID token, in place of what the provider would say. undefined: the claim is left out. */
  readonly claims?: Readonly<Record<string, unknown>>
}

export interface OidcTest {
  readonly issuer: string
  /** Who signs in from now on. */
  person: OidcPerson
  fault: OidcFault | undefined
  /** Whether claims about the person are in the answer of the userinfo endpoint only. */
  hidesClaims: boolean
  /** The query of each authorization request, and the path of each request. */
  readonly authorizations: URLSearchParams[]
  readonly requests: string[]
  /** Opens the address as a browser, and follows the provider to where it sends the browser back. */
  visit(url: string): Promise<URL>
  close(): Promise<void>
}

export const CLIENT_ID = 'berth'
export const CLIENT_SECRET = 'the secret of the client, for tests only'
const KEY_ID = 'test'
const TTL_S = 600

export async function startOidc(redirectUris: readonly string[]): Promise<OidcTest> {
  const keys = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const otherKey = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey
  const server = http.createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const provider = new OidcProvider(
    issuer,
    configuration(redirectUris, keys.privateKey, () => oidc.person),
  )
  const oidc: OidcTest = {
    issuer,
    person: { sub: 'nobody' },
    fault: undefined,
    hidesClaims: false,
    authorizations: [],
    requests: [],
    visit: (url) => visit(url, issuer, oidc),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  provider.use(async (context, next) => {
    await next()
    if (context.oidc?.route === 'token' && typeof context.body.id_token === 'string')
      context.body.id_token = alter(context.body.id_token, oidc, { right: keys.privateKey, wrong: otherKey })
  })
  const answer = provider.callback()
  server.on('request', (request, response) => {
    oidc.requests.push(request.url ?? '')
    if (oidc.fault === 'down') return void response.writeHead(503).end()
    if (oidc.fault === 'slow') return
    if (oidc.fault === 'endless') return endless(response)
    if (request.url?.startsWith('/interaction/') === true) {
      const { sub } = oidc.person
      const refused = { error: 'access_denied', error_description: '<b>no</b>' }
      const result = oidc.fault === 'denied' ? refused : { login: { accountId: sub } }
      return void provider.interactionFinished(request, response, result)
    }
    answer(request, response)
  })
  return oidc
}

function configuration(redirectUris: readonly string[], key: KeyObject, person: () => OidcPerson): object {
  return {
    clients: [
      {
        client_id: CLIENT_ID,
        client_secret: CLIENT_SECRET,
        redirect_uris: redirectUris,
        grant_types: ['authorization_code'],
        response_types: ['code'],
      },
    ],
    jwks: { keys: [{ ...key.export({ format: 'jwk' }), kid: KEY_ID, use: 'sig', alg: 'RS256' }] },
    ttl: {
      AccessToken: TTL_S,
      AuthorizationCode: TTL_S,
      Grant: TTL_S,
      IdToken: TTL_S,
      Interaction: TTL_S,
      Session: TTL_S,
    },
    cookies: { keys: ['for tests only'] },
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    findAccount: (_: unknown, sub: string) => ({ accountId: sub, claims: () => ({ sub, ...person().claims }) }),
    loadExistingGrant: async ({
      oidc,
    }: {
      oidc: { client: { clientId: string }; session: { accountId: string }; provider: Provider }
    }) => {
      const grant = new oidc.provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId })
      grant.addOIDCScope('openid email profile')
      await grant.save()
      return grant
    },
  }
}

const MAX_REDIRECTS = 10

async function visit(start: string, issuer: string, oidc: OidcTest): Promise<URL> {
  const cookies = new Map<string, string>()
  let url = new URL(start)
  for (let n = 0; n < MAX_REDIRECTS; n += 1) {
    if (url.origin !== issuer) return oidc.fault === 'wrong iss parameter' ? withOtherIssuer(url) : url
    if (url.pathname === '/auth') oidc.authorizations.push(url.searchParams)
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const answer = await fetch(url, { redirect: 'manual', headers: { Cookie: cookie } })
    for (const set of answer.headers.getSetCookie()) {
      const [name = '', value = ''] = set.split(';')[0]?.split('=') ?? []
      cookies.set(name, value)
    }
    const location = answer.headers.get('location')
    if (location === null) throw new Error(`the provider stopped at ${url.href}: ${await answer.text()}`)
    url = new URL(location, url)
  }
  throw new Error('the provider redirects without an end')
}

function withOtherIssuer(url: URL): URL {
  const other = new URL(url)
  other.searchParams.set('iss', 'https://other.example')
  return other
}

/** The token with the claims of the test, signed again; or as an attacker would write it. */
function alter(
  token: string,
  { person, fault, hidesClaims }: OidcTest,
  keys: { readonly right: KeyObject; readonly wrong: KeyObject },
): string {
  const [, body = ''] = token.split('.')
  const payload = JSON.parse(Buffer.from(body, 'base64url').toString()) as Record<string, unknown>
  const nowS = Math.floor(systemClock.now() / 1_000)
  const changes: Partial<Record<OidcFault, object>> = {
    'wrong nonce': { nonce: 'of another sign-in' },
    'wrong audience': { aud: 'another client' },
    'wrong issuer': { iss: 'https://other.example' },
    'old token': { iat: nowS - 7_200, exp: nowS - 3_600 },
    'old sign-in': { auth_time: nowS - 3_600 },
  }
  const claims = { ...payload, ...(hidesClaims ? {} : person.claims), ...(fault === undefined ? {} : changes[fault]) }
  if (fault === 'alg none') return `${encode({ alg: 'none' })}.${encode(claims)}.`
  if (fault === 'HS256') {
    const text = `${encode({ alg: 'HS256' })}.${encode(claims)}`
    return `${text}.${createHmac('sha256', CLIENT_SECRET).update(text).digest('base64url')}`
  }
  const text = `${encode({ alg: 'RS256', kid: KEY_ID })}.${encode(claims)}`
  const key = fault === 'wrong key' ? keys.wrong : keys.right
  return `${text}.${sign('sha256', Buffer.from(text), key).toString('base64url')}`
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}

/** An answer that goes on as long as somebody reads it. */
function endless(response: http.ServerResponse): void {
  response.writeHead(200, { 'Content-Type': 'application/json' })
  const chunk = Buffer.alloc(65_536, ' ')
  const write = (): void => {
    while (!response.destroyed && response.write(chunk));
  }
  response.on('drain', write).on('error', () => {})
  write()
}
