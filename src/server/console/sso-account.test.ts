/** The provider of an account, and accounts that require one. Promises 17 and 31 of sign-in. */
import { createServer } from 'node:http'
import net from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startMailServer, textOf, type MailServer, type ReceivedMail } from '../../../test/harness/mail-server.ts'
import { CLIENT_ID, CLIENT_SECRET, startOidc, type OidcTest } from '../../../test/harness/oidc.ts'
import { reasonOf, TestBrowser } from '../../../test/harness/people.ts'
import { testServer, type Call, type TestServer } from '../../../test/harness/server.ts'
import { addProvider, callbackUrl, endOf, PUBLIC_URL, signInAt } from '../../../test/harness/sso.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { ProviderHttp, ProviderUnreachable } from '../../app/person/sso-http.ts'

let mails: MailServer
let oidc: OidcTest
let server: TestServer
let people = 0
const ownCallbacks: string[] = []
beforeAll(async () => {
  mails = await startMailServer()
  oidc = await startOidc([callbackUrl('lab')])
  server = await testServer({
    env: { BERTH_PUBLIC_URL: PUBLIC_URL, BERTH_SMTP_URL: mails.url, BERTH_MAIL_FROM: 'berth@cloud.example' },
  })
  await addProvider(server.operator, oidc, 'lab')
})
afterAll(async () => {
  await server.close()
  await oidc.close()
  await mails.close()
})
beforeEach(() => {
  people += 1
  mails.received.length = 0
  oidc.fault = undefined
})

interface Owner {
  readonly email: string
  readonly accountId: string
  readonly key: Call
  readonly browser: TestBrowser
}

/** An account whose owner has signed in with a code and accepted it. */
async function openAccount(): Promise<Owner> {
  const email = `owner-of-${people}-${mails.received.length}@example.test`
  const opened = await server.operator('POST', '/v2/operator/accounts', { name: `Lab ${people}`, ownerEmail: email })
  const accountId = (opened.body.account as { id: string }).id
  const browser = new TestBrowser(server.url, mails)
  await browser.signIn(email)
  await browser.send('POST', `/v2/people/me/offers/${accountId}/accept`)
  return { email, accountId, key: server.as(opened.body.key as string), browser }
}

function codeIn(mail: ReceivedMail): string | undefined {
  return /^\d{4} \d{4}$/m.exec(textOf(mail).replaceAll('\r', ''))?.[0]
}

/** The account's own provider, which knows its callback once Berth has named it. */
async function setOwnProvider({ key }: Owner): Promise<{ id: string; provider: OidcTest }> {
  const settings = { kind: 'oidc', name: 'Own', clientId: CLIENT_ID, clientSecret: CLIENT_SECRET }
  const first = await key('PUT', '/v2/account/sso', { ...settings, issuer: 'http://127.0.0.1:9' })
  const { id } = first.body.provider as { id: string }
  ownCallbacks.push(callbackUrl(id))
  const own = await startOidc(ownCallbacks)
  const set = await key('PUT', '/v2/account/sso', { ...settings, issuer: own.issuer })
  expect(set.body).toMatchObject({ provider: { id, issuer: own.issuer, hasSecret: true }, requiredProviderId: null })
  return { id, provider: own }
}

describe('promise 31: "SSO only"', () => {
  test('needs one successful sign-in of an owner first; then keys and the provider work, and nothing else', async () => {
    const owner = await openAccount()
    const required = { providerId: 'lab' }
    const early = await owner.key('PUT', '/v2/account/sso/required', required)
    expect(early.body.reason).toBe('sso_not_tried')
    oidc.person = { sub: `sub-${people}`, claims: { email: owner.email, email_verified: true } }
    await signInAt(owner.browser, oidc, 'lab', '?purpose=connect&return=/members')
    const set = await owner.key('PUT', '/v2/account/sso/required', required)
    expect(set.body).toMatchObject({ requiredProviderId: 'lab', choices: [{ id: 'lab', canRequire: true }] })

    // The session of the code is refused at once, and cannot return to the account.
    await waitFor('the session to be refused', async () => {
      const answer = await owner.browser.send('GET', '/v2/users/me')
      return answer.status === 403 && reasonOf(answer) === 'sso_required'
    })
    const { accountId } = owner
    expect(reasonOf(await owner.browser.send('POST', '/v2/people/me/account', { accountId }))).toBe('sso_required')
    expect((await owner.key('GET', '/v2/users/me')).status).toBe(200)
    expect((await server.operator('GET', `/v2/operator/accounts/${accountId}`)).status).toBe(200)

    const browser = new TestBrowser(server.url, mails)
    await signInAt(browser, oidc, 'lab')
    expect((await browser.send('GET', '/v2/users/me')).status).toBe(200)
    // A confirmation in another way keeps the session where it is.
    expect((await browser.send('POST', '/v2/people/me/account', { accountId })).status).toBe(200)

    const off = await owner.key('PUT', '/v2/account/sso/required', { providerId: null })
    expect(off.body.requiredProviderId).toBeNull()
    await waitFor('the session to work', async () => (await owner.browser.send('GET', '/v2/users/me')).status === 200)
  })

  test('the operator who removes the provider frees the account', async () => {
    const owner = await openAccount()
    await addProvider(server.operator, oidc, 'gone')
    const { db } = server.app.database
    await db.updateTable('account').set({ sso_provider_id: 'gone' }).where('id', '=', owner.accountId).execute()
    expect((await server.operator('DELETE', '/v2/operator/sso/gone')).status).toBe(200)
    expect((await owner.key('GET', '/v2/account/sso')).body.requiredProviderId).toBeNull()
  })

  test('only owners set it', async () => {
    const owner = await openAccount()
    const added = await owner.key('POST', '/v2/members', { email: `member-${people}@example.test`, role: 'member' })
    const created = await owner.key('POST', '/v2/api-keys', { name: 'k', memberId: added.body.id, scopes: ['keys'] })
    const member = server.as(created.body.key as string)
    expect((await member('PUT', '/v2/account/sso/required', { providerId: null })).status).toBe(403)
    expect((await member('DELETE', '/v2/account/sso')).status).toBe(403)
    expect((await member('POST', '/v2/account/sso/test')).status).toBe(403)
  })
})

describe("an account's own provider", () => {
  test('signs in with a code of our own, and into that account only', async () => {
    const owner = await openAccount()
    const { id, provider } = await setOwnProvider(owner)
    const email = `colleague-${people}@example.test`
    const elsewhere = await server.operator('POST', '/v2/operator/accounts', { name: 'Elsewhere', ownerEmail: email })
    const other = (elsewhere.body.account as { id: string }).id
    await owner.key('POST', '/v2/members', { email, role: 'member' })
    mails.received.length = 0
    provider.person = { sub: '1', claims: { email, email_verified: true } }
    const browser = new TestBrowser(server.url, mails)
    expect(endOf(await signInAt(browser, provider, id)).values).toMatchObject({ step: 'code' })
    const code = await waitFor('the code', () => mails.received.map(codeIn).find((one) => one !== undefined))
    expect((await browser.redeem(code)).status).toBe(200)

    const page = JSON.parse((await browser.send('GET', '/v2/people/me')).text) as {
      offers: unknown[]
      accounts: unknown[]
    }
    expect(page).toMatchObject({ accounts: [], offers: [{ accountId: owner.accountId }] })
    expect(reasonOf(await browser.send('POST', `/v2/people/me/offers/${other}/accept`))).toBe('sso_other_account')
    const [offer] = page.offers as Array<{ id: string }>
    expect((await browser.send('POST', `/v2/people/me/offers/${offer?.id}/accept`)).status).toBe(200)
    expect((await browser.send('GET', '/v2/users/me')).status).toBe(200)
    expect(reasonOf(await browser.send('DELETE', '/v2/people/me/identities/idn_x'))).toBe('sso_other_account')
    expect(reasonOf(await browser.send('DELETE', '/v2/people/me/sessions'))).toBe('sso_other_account')
    const connect = await browser.send('GET', '/console/sign-in/lab?purpose=connect&return=/security')
    expect(endOf(connect).values.error).toBe('sso_other_account')
    await provider.close()
  })

  test('cannot say that it is somebody who has proved the address elsewhere', async () => {
    const owner = await openAccount()
    const victim = await openAccount()
    const { id, provider } = await setOwnProvider(owner)
    provider.person = { sub: 'victim', claims: { email: victim.email, email_verified: true } }
    mails.received.length = 0
    const browser = new TestBrowser(server.url, mails)
    expect(endOf(await signInAt(browser, provider, id)).values).toMatchObject({ step: 'code' })
    expect(browser.cookies.has('berth_session')).toBe(false)
    await provider.close()
  })

  test('its issuer and client stay while it is required, and another issuer ends its connections', async () => {
    const owner = await openAccount()
    const { id, provider } = await setOwnProvider(owner)
    provider.person = { sub: '1', claims: { email: owner.email } }
    await signInAt(owner.browser, provider, id, '?purpose=connect&return=/members')
    expect((await owner.key('PUT', '/v2/account/sso/required', { providerId: id })).status).toBe(200)
    const settings = { kind: 'oidc', name: 'Own', clientId: CLIENT_ID, issuer: 'http://127.0.0.1:9' }
    expect((await owner.key('PUT', '/v2/account/sso', settings)).body.reason).toBe('sso_is_required')
    await owner.key('PUT', '/v2/account/sso/required', { providerId: null })
    expect((await owner.key('PUT', '/v2/account/sso', settings)).body.provider).toMatchObject({
      people: 0,
      succeededAt: null,
      hasSecret: true,
    })
    expect((await owner.key('DELETE', '/v2/account/sso')).status).toBe(200)
    expect((await owner.key('GET', '/v2/account/sso')).body.provider).toBeNull()
    await provider.close()
  })
})

describe('promise 17', () => {
  test('the provider of an account cannot make Berth call a private address', async () => {
    const strict = await testServer({
      env: { BERTH_PUBLIC_URL: PUBLIC_URL, BERTH_ALLOW_PRIVATE_ADDRESSES: 'false' },
    })
    const { call, id: accountId } = await strict.account()
    const settings = { kind: 'oidc', name: 'Own', clientId: 'berth' }
    for (const issuer of [
      oidc.issuer,
      'https://127.0.0.1',
      'https://10.0.0.1',
      'https://[::1]',
      'https://169.254.169.254',
    ]) {
      const refused = await call('PUT', '/v2/account/sso', { ...settings, issuer })
      expect(refused.body.reason).toBe('sso_bad_issuer')
    }
    // Also where a name has become private since.
    await call('PUT', '/v2/account/sso', { ...settings, issuer: 'https://1.1.1.1' })
    const { db } = strict.app.database
    await db.updateTable('identity_provider').set({ issuer: oidc.issuer }).where('account_id', '=', accountId).execute()
    const before = oidc.requests.length
    const checked = await call('POST', '/v2/account/sso/test')
    expect(checked.body).toMatchObject({ ok: false, checks: [{ check: 'reachable', result: 'failed' }, {}, {}] })
    expect(oidc.requests.length).toBe(before)
    await strict.close()
  })

  test('nor does any later call of it connect to one, or follow a redirect to one', async () => {
    const opened: string[] = []
    const target = net.createServer((socket) => {
      opened.push(socket.remoteAddress ?? '')
      socket.destroy()
    })
    await new Promise<void>((resolve) => target.listen(0, resolve))
    const { port } = target.address() as net.AddressInfo
    const http = new ProviderHttp()
    const names = ['127.0.0.1', 'localhost', '[::1]', '[::ffff:127.0.0.1]', '2130706433', '0.0.0.0']
    for (const name of names) {
      const answer = http.fetchFor(false)(`https://${name}:${port}/keys`, { headers: {} })
      await expect(answer).rejects.toThrow(ProviderUnreachable)
    }
    const plain = http.fetchFor(false)('http://1.1.1.1/keys', { headers: {} })
    await expect(plain).rejects.toThrow(/without HTTPS/)
    expect(opened).toEqual([])
    // The same listener is reached by what the operator has set up, so the guard is what held the others.
    await expect(http.fetchFor(true)(`https://127.0.0.1:${port}/`, { headers: {} })).rejects.toThrow(
      ProviderUnreachable,
    )
    expect(opened).toHaveLength(1)
    const redirect = createServer((_, response) =>
      response.writeHead(302, { Location: `http://127.0.0.1:${port}/` }).end(),
    )
    await new Promise<void>((resolve) => redirect.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(redirect.address() as net.AddressInfo).port}/`
    expect((await http.fetchFor(true)(url, { headers: {} })).status).toBe(302)
    expect(opened).toHaveLength(1)
    await http.close()
    await Promise.all([target, redirect].map((one) => new Promise((resolve) => one.close(resolve))))
  })

  test.each(['slow', 'endless', 'down'] as const)('%s: an answer has a limit of time and size', async (fault) => {
    const http = new ProviderHttp({ timeoutMs: fault === 'slow' ? 100 : 10_000 })
    oidc.fault = fault
    const answer = http.fetchFor(true)(`${oidc.issuer}/.well-known/openid-configuration`, { headers: {} })
    await expect(answer).rejects.toThrow(ProviderUnreachable)
    await http.close()
  })
})

describe('a provider is tested', () => {
  test('from the server, and with a sign-in that changes nothing else', async () => {
    const checked = await server.operator('POST', '/v2/operator/sso/lab/test')
    expect(checked.body).toMatchObject({ ok: true, testUrl: `${PUBLIC_URL}/console/sign-in/lab?purpose=test` })
    const operator = new TestBrowser(server.url, mails)
    await operator.send('POST', '/console/session', { key: server.operatorKey })
    oidc.person = { sub: `tester-${people}` }
    const tested = await signInAt(operator, oidc, 'lab', '?purpose=test&return=/sso')
    expect(endOf(tested)).toEqual({ path: '/sso', values: { tested: 'lab' } })
    const rows = server.app.database.db.selectFrom('identity').select('id').where('subject', '=', `tester-${people}`)
    expect(await rows.execute()).toEqual([])
    oidc.fault = 'wrong key'
    const broken = await signInAt(operator, oidc, 'lab', '?purpose=test&return=/sso')
    expect(endOf(broken).values.error).toBe('sso_rejected')
    const listed = (await server.operator('GET', '/v2/operator/sso')).body.providers as Array<{
      id: string
      lastError: string
    }>
    expect(listed.find(({ id }) => id === 'lab')?.lastError).toMatch(/signature/)
    const owner = await openAccount()
    const refused = await owner.browser.send('GET', '/console/sign-in/lab?purpose=test&return=/sso')
    expect(endOf(refused).values.error).toBe('missing_scope')
  })

  test('faults of its settings are named', async () => {
    await addProvider(server.operator, { issuer: `${oidc.issuer}/other` }, 'wrong')
    const checked = await server.operator('POST', '/v2/operator/sso/wrong/test')
    expect(checked.body).toMatchObject({ ok: false, checks: [{ check: 'reachable', result: 'failed' }, {}, {}] })
    const issuer = 'http://id.example.com'
    const add = { id: 'plain', kind: 'oidc', name: 'Plain', issuer, clientId: 'x' }
    expect((await server.operator('POST', '/v2/operator/sso', add)).body.reason).toBe('sso_bad_issuer')
    expect(
      (await server.operator('POST', '/v2/operator/sso', { ...add, issuer: oidc.issuer, id: 'lab' })).body.reason,
    ).toBe('sso_provider_exists')
    await server.operator('PATCH', '/v2/operator/sso/wrong', { disabled: true })
    const browser = new TestBrowser(server.url, mails)
    expect(endOf(await browser.send('GET', '/console/sign-in/wrong')).values.error).toBe('sso_provider_disabled')
  })
})
