/** Sign-in with GitHub, which has no ID token. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { startMailServer, type MailServer } from '../../../test/harness/mail-server.ts'
import { TestBrowser } from '../../../test/harness/people.ts'
import { testServer, type TestServer } from '../../../test/harness/server.ts'
import { begin, callbackUrl, comeBack, endOf, PUBLIC_URL } from '../../../test/harness/sso.ts'
import { GITHUB_CLIENT, startGithub, type GithubTest } from '../../../test/sim/github.ts'

let mails: MailServer
let github: GithubTest
let server: TestServer
let browser: TestBrowser
let people = 1_000
beforeAll(async () => {
  mails = await startMailServer()
  github = await startGithub()
  server = await testServer({ env: { BERTH_PUBLIC_URL: PUBLIC_URL, BERTH_SIGN_UP: 'open', BERTH_TRUST_PROXY: '1' } })
  await server.operator('POST', '/v2/operator/sso', {
    id: 'github',
    kind: 'github',
    name: 'GitHub',
    issuer: github.url,
    clientId: GITHUB_CLIENT.id,
    clientSecret: GITHUB_CLIENT.secret,
  })
})
afterAll(async () => {
  await server.close()
  await github.close()
  await mails.close()
})
beforeEach(() => {
  people += 1
  browser = new TestBrowser(server.url, mails)
  github.fault = undefined
  github.user = {
    id: people,
    name: `Person ${people}`,
    emails: [
      { email: `other-${people}@example.test`, primary: false, verified: true },
      { email: `person-${people}@example.test`, primary: true, verified: true },
    ],
  }
})

async function signIn(query = '') {
  return comeBack(browser, await github.visit((await begin(browser, 'github', query)).href))
}

const failed = (error: string) => ({ path: '/sign-in', values: { error, provider: 'github' } })

test('the operator sees the callback that GitHub must know', async () => {
  const { providers } = (await server.operator('GET', '/v2/operator/sso')).body
  expect(providers).toMatchObject([{ kind: 'github', callbackUrl: callbackUrl('github') }])
})

test('the primary, verified address creates the person, and the numeric id finds them again', async () => {
  expect(endOf(await signIn('?return=/keys')).path).toBe('/keys')
  const first = JSON.parse((await browser.send('GET', '/v2/people/me')).text) as { id: string }
  expect(first).toMatchObject({ email: `person-${people}@example.test`, name: `Person ${people}` })
  github.user = { ...github.user, emails: [{ email: 'new@example.test', primary: true, verified: true }] }
  browser = new TestBrowser(server.url, mails)
  await signIn()
  expect(JSON.parse((await browser.send('GET', '/v2/people/me')).text)).toMatchObject({ id: first.id })
  const rows = await server.app.database.db
    .selectFrom('identity')
    .select(['issuer', 'subject'])
    .where('person_id', '=', first.id)
    .execute()
  expect(rows).toEqual([{ issuer: github.url, subject: String(people) }])
})

test('promise 8: PKCE S256 and a state are sent, and no page of GitHub gets a nonce that nothing checks', async () => {
  await signIn()
  expect(Object.fromEntries(github.authorizations.at(-1) ?? [])).toMatchObject({
    client_id: GITHUB_CLIENT.id,
    redirect_uri: callbackUrl('github'),
    scope: 'read:user user:email',
    code_challenge_method: 'S256',
    code_challenge: expect.stringMatching(/^[\w-]{43}$/),
  })
})

test('promise 1: without a primary, verified address nobody is signed in', async () => {
  const email = `person-${people}@example.test`
  for (const emails of [[], [{ email, primary: true, verified: false }], [{ email, primary: false, verified: true }]]) {
    github.user = { id: people, name: null, emails }
    expect(endOf(await signIn())).toEqual(failed('sso_no_address'))
  }
  expect(browser.cookies.has('berth_session')).toBe(false)
})

test('promise 9: a code of another flow is refused, since its verifier is another', async () => {
  const first = await github.visit((await begin(browser, 'github')).href)
  const second = await github.visit((await begin(browser, 'github')).href)
  second.searchParams.set('code', first.searchParams.get('code') ?? '')
  expect(endOf(await comeBack(browser, second))).toEqual(failed('sso_rejected'))
})

test('another issuer, a refusal and an outage are told apart', async () => {
  const url = await github.visit((await begin(browser, 'github')).href)
  url.searchParams.set('iss', 'https://github.com.evil.example')
  expect(endOf(await comeBack(browser, url))).toEqual(failed('sso_rejected'))
  github.fault = 'denied'
  expect(endOf(await signIn())).toEqual(failed('sso_denied'))
  github.fault = undefined
  const later = await github.visit((await begin(browser, 'github')).href)
  github.fault = 'down'
  expect(endOf(await comeBack(browser, later))).toEqual(failed('sso_provider_down'))
})

test('GitHub cannot confirm that it is the person, since it does not say when they signed in', async () => {
  await signIn()
  const answer = await browser.send('GET', '/console/sign-in/github?purpose=step-up&return=/security')
  expect(endOf(answer)).toEqual({ path: '/security', values: { error: 'sso_cannot_confirm', provider: 'github' } })
})

test('the operator checks it without a browser', async () => {
  const checked = await server.operator('POST', '/v2/operator/sso/github/test')
  expect(checked.body).toMatchObject({ ok: true, checks: [{ check: 'reachable', result: 'passed' }, {}] })
})

test('the addresses of its API follow from the issuer, so an account cannot pass its own server off as github.com', async () => {
  const owner = await server.account()
  const settings = { kind: 'github', name: 'GitHub', clientId: 'x', clientSecret: 'y' }
  const set = await owner.call('PUT', '/v2/account/sso', { ...settings, issuer: github.url })
  const { id } = set.body.provider as { id: string }
  expect(new URL((await begin(browser, id)).href).origin).toBe(github.url)
})
