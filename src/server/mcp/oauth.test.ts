/** Agents sign in with OAuth: the published client goes the whole way; what is wrong or used gives no key. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { auth, type OAuthClientProvider, type OAuthTokens } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Answer } from '../../../test/harness/console.ts'
import { startMailServer, type MailServer } from '../../../test/harness/mail-server.ts'
import { reasonOf, TestBrowser } from '../../../test/harness/people.ts'
import { testServer, type TestServer } from '../../../test/harness/server.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import { sha256 } from '../../base/id.ts'
import { DAY_MS, MINUTE_MS } from '../../base/instant.ts'
import { isAllowedTarget, isSameTarget } from '../../app/person/oauth-client.ts'
import { sweepExpired } from '../../reconcile/expire.ts'

const PUBLIC_URL = 'https://cloud.example'
const REDIRECT = 'http://127.0.0.1:33418/callback'
const VERIFIER = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'
const CHALLENGE = sha256(VERIFIER).toString('base64url')
const clock = manualClock()
let mails: MailServer
let server: TestServer
let documents: Server
let clientId: string
let document: object
let person: TestBrowser
let accountId: string
let people = 0

beforeAll(async () => {
  mails = await startMailServer()
  server = await testServer({
    clock,
    env: { BERTH_PUBLIC_URL: PUBLIC_URL, BERTH_SMTP_URL: mails.url, BERTH_MAIL_FROM: 'berth@cloud.example' },
  })
  documents = createServer((_, response) => response.end(JSON.stringify(document)))
  await new Promise<void>((listening) => documents.listen(0, '127.0.0.1', listening))
  clientId = `http://127.0.0.1:${(documents.address() as AddressInfo).port}/client.json`
})
afterAll(async () => {
  documents.close()
  await server.close()
  await mails.close()
})
beforeEach(async () => {
  people += 1
  mails.received.length = 0
  document = { client_id: clientId, client_name: 'Helm', redirect_uris: ['http://127.0.0.1/callback'] }
  const email = `oauth-${people}@example.test`
  const opened = await server.operator('POST', '/v2/operator/accounts', { name: email, ownerEmail: email })
  person = new TestBrowser(server.url, mails)
  await person.signIn(email)
  accountId = (opened.body.account as { id: string }).id
  await person.send('POST', `/v2/people/me/offers/${accountId}/accept`)
})

const request = () => ({ clientId, redirectUri: REDIRECT, codeChallenge: CHALLENGE, state: 's t' })
const bodyOf = ({ text }: Answer) => JSON.parse(text) as Record<string, string>

const approve = (more: object = {}) =>
  person.send('POST', '/v2/oauth/approve', { ...request(), accountId, scopes: ['compute:read'], ...more })

async function codeOf(more: object = {}): Promise<string> {
  const { redirectUrl = '' } = bodyOf(await approve(more))
  return new URL(redirectUrl).searchParams.get('code') ?? ''
}

const exchange = (code: string, more: Record<string, string> = {}) =>
  fetch(`${server.url}/oauth/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code,
      client_id: clientId,
      redirect_uri: REDIRECT,
      code_verifier: VERIFIER,
      ...more,
    }),
  })

async function errorOf(answer: Promise<Response>): Promise<unknown> {
  const { status } = await answer
  const { error } = (await (await answer).json()) as { error?: string }
  return [status, error]
}

const mayList = async (token: string): Promise<number> => (await server.as(token)('GET', '/v2/rentals')).status

test('P59: the published client finds its way from the refusal to a key, through the page', async () => {
  let opened: URL | undefined
  let tokens: OAuthTokens | undefined
  let verifier = ''
  const provider: OAuthClientProvider = {
    redirectUrl: REDIRECT,
    clientMetadata: { redirect_uris: [REDIRECT] },
    clientInformation: () => ({ client_id: clientId }),
    tokens: () => tokens,
    saveTokens: (given) => void (tokens = given),
    redirectToAuthorization: (url) => void (opened = url),
    saveCodeVerifier: (given) => void (verifier = given),
    codeVerifier: () => verifier,
  }
  // The server stands behind a proxy that serves its public URL.
  const fetchFn = (url: string | URL, init?: RequestInit) =>
    fetch(String(url).replace(PUBLIC_URL, server.url), { ...init, redirect: 'manual' })
  const refused = await fetch(`${server.url}/mcp`, { method: 'POST', body: '{}' })
  const link = /resource_metadata="([^"]+)"/.exec(refused.headers.get('www-authenticate') ?? '')?.[1] ?? ''
  const common = { serverUrl: `${PUBLIC_URL}/mcp`, resourceMetadataUrl: new URL(link), fetchFn }
  expect(await auth(provider, common)).toBe('REDIRECT')

  expect(opened?.origin + (opened?.pathname ?? '')).toBe(`${PUBLIC_URL}/authorize`)
  const parameters = opened?.searchParams
  expect(parameters?.get('client_id')).toBe(clientId)
  expect(parameters?.get('scope')?.split(' ')).toEqual(['inference', 'compute:read', 'compute:write', 'billing:read'])
  const approved = await approve({
    codeChallenge: parameters?.get('code_challenge'),
    state: parameters?.get('state') ?? undefined,
  })
  const back = new URL(bodyOf(approved)['redirectUrl'] ?? '')
  expect([back.origin + back.pathname, back.searchParams.get('iss')]).toEqual([REDIRECT, PUBLIC_URL])
  const code = back.searchParams.get('code') ?? ''
  expect(await auth(provider, { ...common, authorizationCode: code, iss: PUBLIC_URL })).toBe('AUTHORIZED')
  expect(tokens).toMatchObject({ token_type: 'Bearer', scope: 'compute:read', expires_in: (30 * DAY_MS) / 1_000 })
  expect(await mayList(tokens?.access_token ?? '')).toBe(200)
  // The person sees the agent among their devices, and can end it.
  const { devices } = JSON.parse((await person.send('GET', '/v2/people/me/devices')).text) as {
    devices: Array<{ id: string; name: string }>
  }
  expect(devices.map(({ name }) => name)).toEqual([`Helm (${new URL(clientId).host})`])
  await person.send('DELETE', `/v2/people/me/devices/${devices[0]?.id}`)
  expect(await mayList(tokens?.access_token ?? '')).toBe(401)
})

test('a code works once; a second use ends the key', async () => {
  const code = await codeOf()
  const first = await exchange(code)
  expect([first.status, first.headers.get('cache-control')]).toEqual([200, 'no-store'])
  const { access_token: token } = (await first.json()) as { access_token: string }
  expect(await mayList(token)).toBe(200)
  expect(await errorOf(exchange(code))).toEqual([400, 'invalid_grant'])
  expect(await mayList(token)).toBe(401)
})

test.each([
  ['another verifier', { code_verifier: VERIFIER.replace('d', 'e') }, 'invalid_grant'],
  ['another client', { client_id: 'https://agent.example.com/client.json' }, 'invalid_grant'],
  ['another address', { redirect_uri: 'http://127.0.0.1:33419/callback' }, 'invalid_grant'],
  ['no code', { code: '' }, 'invalid_request'],
  ['another resource', { resource: 'https://elsewhere.example/mcp' }, 'invalid_target'],
  ['another grant', { grant_type: 'password' }, 'unsupported_grant_type'],
])('%s gives no key', async (_, wrong, error) => {
  const code = await codeOf()
  expect(await errorOf(exchange(code, wrong))).toEqual([400, error])
  // Whoever has only the code did not end the sign-in of the right client.
  expect((await exchange(code)).status).toBe(200)
})

test('a code that nobody exchanges in a minute ends with its key', async () => {
  const code = await codeOf()
  clock.advance(MINUTE_MS)
  expect(await errorOf(exchange(code))).toEqual([400, 'invalid_grant'])
  await sweepExpired(server.app).run(new AbortController().signal)
  const { devices } = JSON.parse((await person.send('GET', '/v2/people/me/devices')).text) as { devices: unknown[] }
  expect(devices).toEqual([])
})

test('a refusal tells the client, with its state', async () => {
  const denied = await person.send('POST', '/v2/oauth/deny', request())
  const { searchParams } = new URL(bodyOf(denied)['redirectUrl'] ?? '')
  expect(Object.fromEntries(searchParams)).toEqual({ error: 'access_denied', state: 's t', iss: PUBLIC_URL })
})

describe('a code goes only where the document of the client says', () => {
  test.each([
    ['an address that it does not list', { redirectUri: 'https://evil.example/callback' }, 'oauth_redirect_invalid'],
    ['a script', { redirectUri: 'javascript:alert(1)' }, 'oauth_redirect_invalid'],
    ['an id without a document', { clientId: 'https://agent.example.com/' }, 'oauth_client_invalid'],
    ['a document that nobody serves', { clientId: 'https://127.0.0.1:9/client.json' }, 'oauth_client_unreachable'],
  ])('%s', async (_, wrong, reason) => {
    if ('redirectUri' in wrong && wrong.redirectUri?.startsWith('javascript:'))
      document = { ...document, redirect_uris: [wrong.redirectUri] }
    expect(reasonOf(await approve(wrong))).toBe(reason)
    expect(reasonOf(await person.send('POST', '/v2/oauth/deny', { ...request(), ...wrong }))).toBe(reason)
  })

  test.each([
    ['a document about another client', { client_id: 'https://agent.example.com/client.json' }],
    ['a client with a secret', { token_endpoint_auth_method: 'client_secret_basic' }],
    ['a document without addresses', { redirect_uris: [] }],
  ])('%s', async (_, wrong) => {
    document = { ...document, ...wrong }
    expect(reasonOf(await person.send('POST', '/v2/oauth/find', request()))).toBe('oauth_client_invalid')
  })

  test('targets', () => {
    expect(isSameTarget('http://127.0.0.1/callback', 'http://127.0.0.1:1/callback')).toBe(true)
    expect(isSameTarget('http://127.0.0.1/callback', 'http://localhost:1/callback')).toBe(false)
    expect(isSameTarget('https://a.example/callback', 'https://a.example:1/callback')).toBe(false)
    expect(isSameTarget('http://localhost/callback', 'http://localhost/other')).toBe(false)
    const allowed = ['https://a.example/x', 'http://[::1]:5/x', 'com.example.app:/x', 'cursor://oauth/callback']
    const refused = ['http://a.example/x', 'data:text/html,x', 'https://u:p@a.example/x', 'https://a.example/x#y', 'x']
    expect(allowed.filter((uri) => !isAllowedTarget(uri))).toEqual([])
    expect(refused.filter((uri) => isAllowedTarget(uri))).toEqual([])
  })
})

test('an agent gets no more than its person has, and never keys or members', async () => {
  expect((await approve({ scopes: ['keys'] })).status).toBe(400)
  expect(reasonOf(await approve({ accountId: 'acc_0000000000000000000000' }))).toBe('account_not_found')
  const byKey = await server.operator('POST', '/v2/oauth/approve', { ...request(), accountId, scopes: ['inference'] })
  expect([byKey.status, byKey.body.reason]).toEqual([403, 'person_session_required'])
})
