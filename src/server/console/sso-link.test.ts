/** Whom a provider's word signs in. Promises 1 to 4 and 29 of sign-in. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startMailServer, textOf, type MailServer } from '../../../test/harness/mail-server.ts'
import { startOidc, type OidcTest } from '../../../test/harness/oidc.ts'
import { reasonOf, TestBrowser } from '../../../test/harness/people.ts'
import { testServer, type TestServer } from '../../../test/harness/server.ts'
import { addProvider, callbackUrl, endOf, PUBLIC_URL, signInAt } from '../../../test/harness/sso.ts'
import { waitFor } from '../../../test/harness/wait.ts'

let mails: MailServer
let oidc: OidcTest
let second: OidcTest
let server: TestServer
let browser: TestBrowser
let people = 0
let address: string
beforeAll(async () => {
  mails = await startMailServer()
  oidc = await startOidc([callbackUrl('lab'), callbackUrl('google')])
  second = await startOidc([callbackUrl('second'), callbackUrl('trusted')])
  const env = { BERTH_PUBLIC_URL: PUBLIC_URL, BERTH_SMTP_URL: mails.url, BERTH_MAIL_FROM: 'berth@cloud.example' }
  server = await testServer({ env: { ...env, BERTH_SIGN_UP: 'open', BERTH_TRUST_PROXY: '1' } })
  await addProvider(server.operator, oidc, 'lab')
  await addProvider(server.operator, second, 'second')
})
afterAll(async () => {
  await server.close()
  await oidc.close()
  await second.close()
  await mails.close()
})
beforeEach(() => {
  people += 1
  address = `person-${people}@example.test`
  mails.received.length = 0
  browser = new TestBrowser(server.url, mails)
  for (const provider of [oidc, second]) {
    provider.fault = undefined
    provider.person = { sub: `sub-${people}`, claims: { email: address, email_verified: true } }
  }
})

const failed = (error: string, provider = 'lab') => ({ path: '/sign-in', values: { error, provider } })
const asksForCode = (provider = 'lab') => ({ path: '/sign-in', values: { step: 'code', provider } })

async function idOf(who: TestBrowser): Promise<string> {
  return (JSON.parse((await who.send('GET', '/v2/people/me')).text) as { id: string }).id
}

async function codeSent(): Promise<{ code: string; text: string }> {
  const mail = await waitFor('the code', () => mails.received.find(({ to }) => to.includes(address)))
  const text = textOf(mail).replaceAll('\r', '')
  return { code: /^\d{4} \d{4}$/m.exec(text)?.[0] ?? '', text }
}

function findPeople(email: string) {
  return server.app.database.db.selectFrom('person').selectAll().where('email', '=', email).execute()
}

describe('promise 1', () => {
  test.each([
    ['false', false],
    ['the text true', 'true'],
    ['1', 1],
    ['no claim', undefined],
  ])('an address that is verified by %s joins and creates nobody', async (_, verified) => {
    oidc.person = { sub: `sub-${people}`, claims: { email: address, email_verified: verified } }
    expect(endOf(await signInAt(browser, oidc, 'lab'))).toEqual(asksForCode())
    expect(browser.cookies.has('berth_session')).toBe(false)
    expect(await findPeople(address)).toEqual([])
  })

  test('with a code of our own the new person is created and connected', async () => {
    oidc.person = { sub: `sub-${people}`, claims: { email: address.toUpperCase() } }
    await signInAt(browser, oidc, 'lab')
    const { code, text } = await codeSent()
    expect(text).toContain('Provider lab')
    expect((await browser.redeem(code)).status).toBe(200)
    const id = await idOf(browser)
    const next = new TestBrowser(server.url, mails)
    expect(endOf(await signInAt(next, oidc, 'lab')).path).toBe('/')
    expect(await idOf(next)).toBe(id)
  })

  test('the code works in the browser of the sign-in only', async () => {
    oidc.person = { sub: `sub-${people}`, claims: { email: address } }
    await signInAt(browser, oidc, 'lab')
    const { code } = await codeSent()
    expect(reasonOf(await new TestBrowser(server.url, mails).redeem(code))).toBe('code_ended')
    expect(await findPeople(address)).toEqual([])
  })

  test('who has proved the address before is not connected by a code: they might not know whose identity it is', async () => {
    await browser.signIn(address)
    const victim = await idOf(browser)
    mails.received.length = 0
    const tricked = new TestBrowser(server.url, mails)
    oidc.person = { sub: 'an attacker', claims: { email: address } }
    await signInAt(tricked, oidc, 'lab')
    const { code } = await codeSent()
    expect(reasonOf(await tricked.redeem(code))).toBe('sso_not_connected')
    const identities = server.app.database.db.selectFrom('identity').selectAll().where('person_id', '=', victim)
    expect(await identities.execute()).toEqual([])
  })

  test('a token without an address is refused', async () => {
    oidc.person = { sub: `sub-${people}` }
    expect(endOf(await signInAt(browser, oidc, 'lab'))).toEqual(failed('sso_no_address'))
  })
})

describe('promise 2', () => {
  test('another at the provider who takes the address gets nothing of its owner', async () => {
    await signInAt(browser, oidc, 'lab')
    const victim = await idOf(browser)
    const thief = new TestBrowser(server.url, mails)
    oidc.person = { sub: 'the thief', claims: { email: address, email_verified: true } }
    expect(endOf(await signInAt(thief, oidc, 'lab'))).toEqual(failed('sso_not_connected'))
    // Also where the thief had an identity of their own before.
    oidc.person = { sub: 'the thief', claims: { email: `own-${address}`, email_verified: true } }
    await signInAt(thief, oidc, 'lab')
    const own = await idOf(thief)
    oidc.person = { sub: 'the thief', claims: { email: address, email_verified: true } }
    await signInAt(thief, oidc, 'lab')
    expect(await idOf(thief)).toBe(own)
    expect(own).not.toBe(victim)
  })

  test('a person whose address changes at the provider stays the same person', async () => {
    await signInAt(browser, oidc, 'lab')
    const id = await idOf(browser)
    oidc.person = { sub: `sub-${people}`, claims: { email: `new-${address}`, email_verified: true } }
    await signInAt(browser, oidc, 'lab')
    expect(await idOf(browser)).toBe(id)
    expect(await findPeople(`new-${address}`)).toEqual([])
  })
})

describe('promise 3', () => {
  test('a second provider with the same verified address is refused until it is connected', async () => {
    await signInAt(browser, oidc, 'lab')
    const id = await idOf(browser)
    const other = new TestBrowser(server.url, mails)
    expect(endOf(await signInAt(other, second, 'second'))).toEqual(failed('sso_not_connected', 'second'))
    const connected = await signInAt(browser, second, 'second', '?purpose=connect&return=/security')
    expect(endOf(connected)).toEqual({ path: '/security', values: { connected: 'second' } })
    expect(endOf(await signInAt(other, second, 'second')).path).toBe('/')
    expect(await idOf(other)).toBe(id)
  })

  test('one that is authoritative for the domain links at once, but not a second person there', async () => {
    await browser.signIn(address)
    const id = await idOf(browser)
    await addProvider(server.operator, second, 'trusted', { domains: ['example.test'] })
    const other = new TestBrowser(server.url, mails)
    expect(endOf(await signInAt(other, second, 'trusted')).path).toBe('/')
    expect(await idOf(other)).toBe(id)
    second.person = { sub: 'a new colleague', claims: { email: address, email_verified: true } }
    const refused = await signInAt(new TestBrowser(server.url, mails), second, 'trusted')
    expect(endOf(refused)).toEqual(failed('sso_not_connected', 'trusted'))
    await server.operator('DELETE', '/v2/operator/sso/trusted')
  })

  test('what belongs to one person is not connected to another', async () => {
    await signInAt(browser, oidc, 'lab')
    const other = new TestBrowser(server.url, mails)
    second.person = { sub: `other-${people}`, claims: { email: `other-${address}`, email_verified: true } }
    await signInAt(other, second, 'second')
    const taken = await signInAt(other, oidc, 'lab', '?purpose=connect&return=/security')
    expect(endOf(taken)).toEqual({ path: '/security', values: { error: 'sso_taken', provider: 'lab' } })
  })

  test('people list their connections, and remove them while another way is left', async () => {
    await signInAt(browser, oidc, 'lab')
    const read = async () =>
      JSON.parse((await browser.send('GET', '/v2/people/me/identities')).text) as {
        identities: Array<{ id: string; providerId: string; email: string }>
        choices: Array<{ id: string; connectUrl: string }>
      }
    const { identities, choices } = await read()
    expect(identities).toMatchObject([{ providerId: 'lab', email: address }])
    expect(choices).toMatchObject([{ id: 'second', connectUrl: '/console/sign-in/second?purpose=connect' }])
    expect((await browser.send('DELETE', `/v2/people/me/identities/${identities[0]?.id}`)).status).toBe(200)
    expect((await read()).identities).toEqual([])
    expect(endOf(await signInAt(new TestBrowser(server.url, mails), oidc, 'lab'))).toEqual(failed('sso_not_connected'))
  })
})

test('promise 4: a person whom others added gets offers, and no account before they accept', async () => {
  await server.operator('POST', '/v2/operator/accounts', { name: `Added ${people}`, ownerEmail: address })
  await signInAt(browser, oidc, 'lab')
  const page = JSON.parse((await browser.send('GET', '/v2/people/me')).text) as {
    accounts: unknown[]
    offers: unknown[]
  }
  expect(page).toMatchObject({ accounts: [], offers: [{ role: 'owner' }] })
  expect(reasonOf(await browser.send('GET', '/v2/users/me'))).toBe('no_account')
})

test('a disabled person is refused, however they come', async () => {
  await signInAt(browser, oidc, 'lab')
  const id = await idOf(browser)
  await server.operator('PATCH', `/v2/operator/people/${id}`, { disabled: true, reason: 'test' })
  expect(endOf(await signInAt(browser, oidc, 'lab'))).toEqual(failed('person_disabled'))
})

test('where a domain is required, other people are refused', async () => {
  await server.operator('PATCH', '/v2/operator/sso/lab', { requiredDomain: 'corp.test' })
  expect(endOf(await signInAt(browser, oidc, 'lab'))).toEqual(failed('sso_other_domain'))
  oidc.person = { sub: `sub-${people}`, claims: { email: address, email_verified: true, hd: 'corp.test' } }
  expect(endOf(await signInAt(browser, oidc, 'lab')).path).toBe('/')
  await server.operator('PATCH', '/v2/operator/sso/lab', { requiredDomain: null })
})

test('while sign-up is closed, strangers are refused and invited people enter', async () => {
  const env = { BERTH_PUBLIC_URL: PUBLIC_URL, BERTH_SMTP_URL: mails.url, BERTH_MAIL_FROM: 'berth@cloud.example' }
  const closed = await testServer({ databaseUrl: server.databaseUrl, runLoops: false, env })
  const stranger = new TestBrowser(closed.url, mails)
  expect(endOf(await signInAt(stranger, oidc, 'lab'))).toEqual(failed('sign_up_closed'))
  expect(await findPeople(address)).toEqual([])
  const invited = await server.operator('POST', '/v2/operator/invitations', { email: address })
  expect(invited.status).toBe(200)
  expect(endOf(await signInAt(stranger, oidc, 'lab')).path).toBe('/')
  await closed.close()
})

describe('promise 29: a required factor also holds after a sign-in at a provider', () => {
  test.each([
    [undefined, 'factor_required'],
    [['pwd'], 'factor_required'],
    [['otp'], 'factor_required'],
    [['pwd', 'kba'], 'factor_required'],
    ['mfa', 'factor_required'],
    [['pwd', 'otp'], undefined],
    [['mfa'], undefined],
  ])('amr %j: %s', async (amr, reason) => {
    oidc.person = { sub: `sub-${people}`, claims: { email: address, email_verified: true, amr } }
    await signInAt(browser, oidc, 'lab')
    const id = await idOf(browser)
    const { db } = server.app.database
    await db
      .updateTable('account')
      .set({ requires_factor: true })
      .where('id', 'in', (query) => query.selectFrom('member').select('account_id').where('person_id', '=', id))
      .execute()
    await signInAt(browser, oidc, 'lab')
    const answer = await browser.send('GET', '/v2/users/me')
    expect(answer.status === 200 ? undefined : reasonOf(answer)).toBe(reason)
  })
})
