/** Sign-in at an OpenID provider, with a real one in this process. Promises 6 to 13 and 16 of sign-in. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ask, consoleHeaders } from '../../../test/harness/console.ts'
import { startMailServer, type MailServer } from '../../../test/harness/mail-server.ts'
import { CLIENT_SECRET, startOidc, type OidcFault, type OidcTest } from '../../../test/harness/oidc.ts'
import { reasonOf, TestBrowser } from '../../../test/harness/people.ts'
import { testServer, type TestServer } from '../../../test/harness/server.ts'
import { addProvider, begin, callbackUrl, comeBack, endOf, PUBLIC_URL, signInAt } from '../../../test/harness/sso.ts'
import { CODE_PATH, providerPath, SIGN_IN_PATH } from '../../contract/session.ts'
import type { SignInWays } from '../../contract/session-body.ts'

let mails: MailServer
let oidc: OidcTest
let server: TestServer
let browser: TestBrowser
let people = 0
beforeAll(async () => {
  mails = await startMailServer()
  oidc = await startOidc([callbackUrl('lab'), callbackUrl('other')])
  server = await testServer({
    env: {
      BERTH_PUBLIC_URL: PUBLIC_URL,
      BERTH_SMTP_URL: mails.url,
      BERTH_MAIL_FROM: 'berth@cloud.example',
      BERTH_SIGN_UP: 'open',
      BERTH_TRUST_PROXY: '1',
    },
  })
  await addProvider(server.operator, oidc, 'lab')
  await addProvider(server.operator, oidc, 'other')
})
afterAll(async () => {
  await server.close()
  await oidc.close()
  await mails.close()
})
beforeEach(() => {
  people += 1
  browser = new TestBrowser(server.url, mails)
  oidc.fault = undefined
  oidc.hidesClaims = false
  oidc.person = { sub: `sub-${people}`, claims: { email: `person-${people}@example.test`, email_verified: true } }
})

interface Me {
  readonly id: string
  readonly email: string
  readonly session: { readonly method: string; readonly providerId: string | null; readonly authenticatedAt: string }
  readonly accounts: readonly unknown[]
}

async function me(who: TestBrowser): Promise<Me> {
  return JSON.parse((await who.send('GET', '/v2/people/me')).text) as Me
}

const failed = (error: string, provider = 'lab') => ({ path: '/sign-in', values: { error, provider } })

async function ways(): Promise<SignInWays> {
  const answer = await ask(server.url, SIGN_IN_PATH, { headers: consoleHeaders })
  return JSON.parse(answer.text) as SignInWays
}

test('a person signs in, returns to the page, and is the same person the next time', async () => {
  const answer = await signInAt(browser, oidc, 'lab', '?return=/rentals?state=Running')
  expect(endOf(answer)).toEqual({ path: '/rentals', values: { state: 'Running' } })
  const first = await me(browser)
  expect(first).toMatchObject({
    email: `person-${people}@example.test`,
    session: { method: 'provider', providerId: 'lab' },
    accounts: [{ role: 'owner', isCurrent: true }],
  })
  const next = new TestBrowser(server.url, mails)
  await signInAt(next, oidc, 'lab')
  expect((await me(next)).id).toBe(first.id)
  const [listed] = (await server.operator('GET', '/v2/operator/sso')).body.providers as unknown[]
  expect(listed).toMatchObject({ id: 'lab', isDown: false, lastError: null, succeededAt: expect.any(String) })
})

test('claims that only the userinfo endpoint has count too', async () => {
  oidc.hidesClaims = true
  await signInAt(browser, oidc, 'lab')
  expect((await me(browser)).email).toBe(`person-${people}@example.test`)
  expect(oidc.requests.some((path) => path.startsWith('/me'))).toBe(true)
})

test('promise 6: a callback in another browser than the one that began is refused', async () => {
  const url = await oidc.visit((await begin(browser, 'lab')).href)
  const other = new TestBrowser(server.url, mails)
  expect(endOf(await comeBack(other, url))).toEqual(failed('sso_ended'))
  await begin(other, 'lab')
  expect(endOf(await comeBack(other, url))).toEqual(failed('sso_ended'))
  expect(other.cookies.has('berth_session')).toBe(false)
  // It has not ended the sign-in of the right one.
  expect(endOf(await comeBack(browser, url)).path).toBe('/')
  expect(browser.cookies.has('berth_session')).toBe(true)
})

test('promise 7: a callback URL works once', async () => {
  const url = await oidc.visit((await begin(browser, 'lab')).href)
  await comeBack(browser, url)
  const token = browser.cookies.get('berth_session')
  const again = await comeBack(browser, url)
  expect(endOf(again)).toEqual(failed('sso_ended'))
  expect(again.headers['set-cookie']).toBeUndefined()
  expect(browser.cookies.get('berth_session')).toBe(token)
})

test('promise 7: of two answers at once one counts', async () => {
  const url = await oidc.visit((await begin(browser, 'lab')).href)
  const answers = await Promise.all([1, 2, 3].map(() => comeBack(browser, url)))
  expect(answers.map((one) => endOf(one).path).toSorted()).toEqual(['/', '/sign-in', '/sign-in'])
})

describe('promise 8', () => {
  test('PKCE with S256, a state and a nonce of 32 bytes are always sent', async () => {
    const { searchParams: sent } = await begin(browser, 'lab')
    expect(Object.fromEntries(sent)).toMatchObject({
      response_type: 'code',
      client_id: 'berth',
      redirect_uri: callbackUrl('lab'),
      scope: 'openid email profile',
      code_challenge_method: 'S256',
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      state: expect.stringMatching(/^[\w-]{43}$/),
      nonce: expect.stringMatching(/^[\w-]{43}$/),
    })
    const { searchParams: next } = await begin(browser, 'lab')
    for (const name of ['state', 'nonce', 'code_challenge']) expect(next.get(name)).not.toBe(sent.get(name))
  })

  const faults = [
    'wrong key',
    'wrong nonce',
    'wrong audience',
    'wrong issuer',
    'alg none',
    'HS256',
    'old token',
    'wrong iss parameter',
  ] as const satisfies readonly OidcFault[]
  test.each(faults)('%s is refused', async (fault) => {
    oidc.fault = fault
    expect(endOf(await signInAt(browser, oidc, 'lab'))).toEqual(failed('sso_rejected'))
    expect(browser.cookies.has('berth_session')).toBe(false)
    oidc.fault = undefined
    expect(endOf(await signInAt(browser, oidc, 'lab')).path).toBe('/')
    // Whoever sends wrong answers does not make the page say that the provider is down.
    expect((await ways()).providers).toContainEqual({ id: 'lab', name: 'Provider lab', kind: 'oidc', isDown: false })
  })

  test('the secret of the client is in no answer, and in the database only sealed', async () => {
    const listed = await server.operator('GET', '/v2/operator/sso')
    expect(JSON.stringify(listed.body)).not.toContain(CLIENT_SECRET)
    const rows = await server.app.database.db.selectFrom('identity_provider').selectAll().execute()
    expect(JSON.stringify(rows)).not.toContain(CLIENT_SECRET)
    const audit = await server.operator('GET', '/v2/operator/audit')
    expect(JSON.stringify(audit.body)).not.toContain(CLIENT_SECRET)
  })
})

test('promise 9: a code of one provider at the callback of another is refused, and used up', async () => {
  const url = await oidc.visit((await begin(browser, 'lab')).href)
  const other = new URL(url)
  other.pathname = `${providerPath('other')}/callback`
  expect(endOf(await comeBack(browser, other))).toEqual(failed('sso_ended', 'other'))
  expect(endOf(await comeBack(browser, url))).toEqual(failed('sso_ended'))
  expect(browser.cookies.has('berth_session')).toBe(false)
})

test('promise 10: a forged host changes no redirect_uri', async () => {
  for (const headers of [{ Host: 'evil.example' }, { 'X-Forwarded-Host': 'evil.example' }]) {
    const answer = await browser.send('GET', providerPath('lab'), undefined, headers)
    const url = new URL(answer.headers.location ?? '')
    expect(url.searchParams.get('redirect_uri')).toBe(callbackUrl('lab'))
    expect(url.href).not.toContain('evil.example')
  }
})

describe('promise 11: after the sign-in nothing leads to another site', () => {
  test.each([
    '//x',
    '/\\x',
    'https:x',
    'https://x.example/',
    '/%5Cx',
    '/%2F/x',
    '/%09/x',
    '/%0d%0aSet-Cookie:a=b',
    '/%ff',
    '/.//x.example',
  ])('%s', async (path) => {
    const answer = await signInAt(browser, oidc, 'lab', `?return=${encodeURIComponent(path)}`)
    expect(answer.headers.location).toBe('/')
  })

  test.each(['step-up', 'connect', 'test'])('nor after a %s that is refused', async (purpose) => {
    const path = encodeURIComponent('/.//x.example')
    const answer = await browser.send('GET', `${providerPath('lab')}?purpose=${purpose}&return=${path}`)
    expect(endOf(answer)).toEqual({ path: '/', values: { error: expect.any(String), provider: 'lab' } })
    expect(answer.headers.location).toMatch(/^\/\?/)
  })

  test('a link of another site leads to the page, where the person decides', async () => {
    const before = oidc.requests.length
    const answer = await browser.follow(`${providerPath('lab')}?return=/keys`)
    expect(endOf(answer)).toEqual({ path: '/sign-in', values: { provider: 'lab', next: '/keys' } })
    expect(oidc.requests.length).toBe(before)
  })
})

describe('promise 12', () => {
  test('the token changes at a sign-in, and the old session ends though its cookie was not sent', async () => {
    await signInAt(browser, oidc, 'lab')
    const old = browser.cookies.get('berth_session') ?? ''
    await signInAt(browser, oidc, 'lab')
    expect(browser.cookies.get('berth_session')).not.toBe(old)
    const answer = await ask(server.url, '/v2/people/me', {
      headers: { ...consoleHeaders, Cookie: `berth_session=${old}` },
    })
    expect([answer.status, reasonOf(answer)]).toEqual([401, 'session_ended'])
  })

  test('a step-up asks for a new sign-in, and changes the token of the same session', async () => {
    await signInAt(browser, oidc, 'lab')
    const old = browser.cookies.get('berth_session')
    const before = await me(browser)
    const answer = await signInAt(browser, oidc, 'lab', '?purpose=step-up&return=/security')
    expect(endOf(answer)).toEqual({ path: '/security', values: {} })
    expect(Object.fromEntries(oidc.authorizations.at(-1) ?? [])).toMatchObject({ prompt: 'login', max_age: '0' })
    expect(browser.cookies.get('berth_session')).not.toBe(old)
    const after = await me(browser)
    expect(after.id).toBe(before.id)
    expect(Date.parse(after.session.authenticatedAt)).toBeGreaterThan(Date.parse(before.session.authenticatedAt))
  })

  test('a step-up with an old sign-in, or as another person, is refused', async () => {
    await signInAt(browser, oidc, 'lab')
    const token = browser.cookies.get('berth_session')
    const refused = (error: string) => ({ path: '/security', values: { error, provider: 'lab' } })
    oidc.fault = 'old sign-in'
    const query = '?purpose=step-up&return=/security'
    expect(endOf(await signInAt(browser, oidc, 'lab', query))).toEqual(refused('sso_rejected'))
    oidc.fault = undefined
    oidc.person = { sub: 'another', claims: { email: 'another@example.test', email_verified: true } }
    expect(endOf(await signInAt(browser, oidc, 'lab', query))).toEqual(refused('sso_other_person'))
    expect(browser.cookies.get('berth_session')).toBe(token)
  })

  test('another site begins no step-up and connects nothing', async () => {
    await signInAt(browser, oidc, 'lab')
    for (const purpose of ['step-up', 'connect', 'test'])
      expect(endOf(await browser.follow(`${providerPath('other')}?purpose=${purpose}`)).path).toBe('/sign-in')
    const stranger = new TestBrowser(server.url, mails)
    const answer = await stranger.send('GET', `${providerPath('lab')}?purpose=connect&return=/security`)
    expect(endOf(answer)).toEqual({ path: '/security', values: { error: 'missing_key', provider: 'lab' } })
  })
})

test('promise 13: over HTTPS the flow and the session have cookies that no other host can set', async () => {
  const env = { BERTH_TRUST_PROXY: '1', BERTH_PUBLIC_URL: PUBLIC_URL, BERTH_SIGN_UP: 'open' }
  const behind = await testServer({ databaseUrl: server.databaseUrl, runLoops: false, env })
  const https = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'cloud.example', 'X-Forwarded-For': '10.0.0.9' }
  const begun = await ask(behind.url, providerPath('lab'), { headers: https })
  const [flow = ''] = begun.headers['set-cookie'] ?? []
  expect(flow).toMatch(/^__Host-berth_flow=[\w-]{43}; HttpOnly; SameSite=Lax; Path=\/; Max-Age=\d+; Secure$/)
  const url = await oidc.visit(begun.headers.location ?? '')
  const [cookie = ''] = flow.split(';')
  const path = `${url.pathname}${url.search}`
  // An application on a sibling host can set a cookie without the prefix.
  const planted = await ask(behind.url, path, { headers: { ...https, Cookie: cookie.replace('__Host-', '') } })
  expect(endOf(planted)).toEqual(failed('sso_ended'))
  const answer = await ask(behind.url, path, { headers: { ...https, Cookie: cookie } })
  expect(answer.headers['set-cookie']?.[0]).toMatch(
    /^__Host-berth_session=[\w-]{43}; HttpOnly; SameSite=Strict; .*Secure$/,
  )
  await behind.close()
})

test('accounts that people open with a provider are counted by network too', async () => {
  const reasons: Array<string | undefined> = []
  for (let n = 0; n < 6; n += 1) {
    oidc.person = { sub: `farm-${n}`, claims: { email: `farm-${n}@example.test`, email_verified: true } }
    const one = new TestBrowser(server.url, mails)
    one.address = '203.0.113.7'
    reasons.push(endOf(await signInAt(one, oidc, 'lab')).values['error'])
  }
  expect(reasons).toEqual([...Array.from({ length: 5 }, () => undefined), 'too_many_accounts'])
})

describe('promise 16', () => {
  test('while a provider is down the page says so, and codes and keys work', async () => {
    // Its settings are cached by this server, not by another.
    const fresh = await testServer({
      databaseUrl: server.databaseUrl,
      runLoops: false,
      env: { BERTH_PUBLIC_URL: PUBLIC_URL, BERTH_SMTP_URL: mails.url, BERTH_MAIL_FROM: 'berth@cloud.example' },
    })
    oidc.fault = 'down'
    const one = new TestBrowser(fresh.url, mails)
    const answer = await one.send('GET', providerPath('lab'))
    expect(endOf(answer)).toEqual(failed('sso_provider_down'))
    expect((await ways()).providers).toContainEqual({ id: 'lab', name: 'Provider lab', kind: 'oidc', isDown: true })
    expect((await browser.send('POST', CODE_PATH, { email: 'somebody@example.test' })).status).toBe(200)
    expect((await server.demo('GET', '/v2/users/me')).status).toBe(200)
    oidc.fault = undefined
    await begin(one, 'lab')
    expect((await ways()).providers).toContainEqual({ id: 'lab', name: 'Provider lab', kind: 'oidc', isDown: false })
    await fresh.close()
  })

  test('a provider that fails during a sign-in is down', async () => {
    const url = await oidc.visit((await begin(browser, 'other')).href)
    oidc.fault = 'down'
    expect(endOf(await comeBack(browser, url))).toEqual(failed('sso_provider_down', 'other'))
    expect((await ways()).providers.find(({ id }) => id === 'other')?.isDown).toBe(true)
    oidc.fault = undefined
    await begin(browser, 'other')
  })

  test('a refusal of the person there is no fault of the provider', async () => {
    oidc.fault = 'denied'
    expect(endOf(await signInAt(browser, oidc, 'lab'))).toEqual(failed('sso_denied'))
    expect((await ways()).providers.find(({ id }) => id === 'lab')?.isDown).toBe(false)
  })
})
