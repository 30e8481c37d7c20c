/** `berth login` as the device and the person see it: promises 25 to 27 of sign-in. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Answer } from '../../../test/harness/console.ts'
import { startMailServer, type MailServer } from '../../../test/harness/mail-server.ts'
import { reasonOf, TestBrowser } from '../../../test/harness/people.ts'
import { testServer, type Call, type TestServer } from '../../../test/harness/server.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../../base/instant.ts'
import { sweepExpired } from '../../reconcile/expire.ts'

const PUBLIC_URL = 'https://cloud.example'
const clock = manualClock()
let mails: MailServer
let server: TestServer
let person: TestBrowser
let account: { id: string; call: Call }
let people = 0

beforeAll(async () => {
  mails = await startMailServer()
  server = await testServer({
    clock,
    env: { BERTH_PUBLIC_URL: PUBLIC_URL, BERTH_SMTP_URL: mails.url, BERTH_MAIL_FROM: 'berth@cloud.example' },
  })
})
afterAll(async () => {
  await server.close()
  await mails.close()
})
beforeEach(async () => {
  people += 1
  mails.received.length = 0
  ;({ person, account } = await signUp(`device-${people}@example.test`))
})

/** An owner who accepted the account that the operator opened. */
async function signUp(email: string) {
  const opened = await server.operator('POST', '/v2/operator/accounts', { name: email, ownerEmail: email })
  const browser = new TestBrowser(server.url, mails)
  await browser.signIn(email)
  const { id } = opened.body.account as { id: string }
  expect((await browser.send('POST', `/v2/people/me/offers/${id}/accept`)).status).toBe(200)
  return { person: browser, account: { id, call: server.as(opened.body.key as string) } }
}

interface Begun {
  readonly device_code: string
  readonly user_code: string
}

async function begin(days?: number): Promise<Begun> {
  const begun = await server.anonymous('POST', '/v2/device/code', { host_name: 'workstation', days })
  expect(begun.body).toMatchObject({ verification_uri: `${PUBLIC_URL}/device`, expires_in: 600, interval: 5 })
  return begun.body
}

const poll = ({ device_code }: Begun) => server.anonymous('POST', '/v2/device/token', { device_code })
const reasonOfPoll = async (login: Begun) => (await poll(login)).body.reason as string

const approve = (userCode: string, more: object = {}) =>
  person.send('POST', '/v2/device/approve', { userCode, accountId: account.id, scopes: ['inference'], ...more })

const bodyOf = ({ text }: Answer) => JSON.parse(text) as Record<string, unknown>

describe('promise 25: a device code is approved only by typing it, with host and address shown', () => {
  test('the person sees the device before they decide', async () => {
    const login = await begin(7)
    expect(login.user_code).toMatch(/^[B-DF-HJ-NP-TV-Z]{4}-[B-DF-HJ-NP-TV-Z]{4}$/)
    const page = await person.send('POST', '/v2/device/find', { userCode: login.user_code })
    expect(bodyOf(page)).toEqual({
      hostName: 'workstation',
      address: '127.0.0.1',
      createdAt: new Date(clock.now()).toISOString(),
      expiresAt: new Date(clock.now() + 10 * MINUTE_MS).toISOString(),
      days: 7,
    })
    // Looking decides nothing.
    expect(await reasonOfPoll(login)).toBe('authorization_pending')
  })

  test('no answer has a link that contains the code', async () => {
    const begun = await server.anonymous('POST', '/v2/device/code', { host_name: 'workstation' })
    const { user_code: code, verification_uri: link, ...others } = begun.body
    expect(Object.keys(others).toSorted()).toEqual(['device_code', 'expires_in', 'interval'])
    expect(String(link)).not.toContain(String(code).slice(0, 4))
  })

  test('the code is read as people type it', async () => {
    const login = await begin()
    const typed = ` ${login.user_code.toLowerCase().replace('-', ' ')} `
    expect((await approve(typed)).status).toBe(200)
    expect((await poll(login)).body.token_type).toBe('Bearer')
  })

  test('the secret of the device is no code, and nobody approves without a session', async () => {
    const login = await begin()
    expect(reasonOf(await approve(login.device_code.slice(0, 50)))).toBe('device_code_not_found')
    const body = { userCode: login.user_code, accountId: account.id, scopes: ['inference'] }
    const byKey = await account.call('POST', '/v2/device/approve', body)
    expect([byKey.status, byKey.body.reason]).toEqual([403, 'person_session_required'])
    expect(await reasonOfPoll(login)).toBe('authorization_pending')
  })
})

describe('promise 26', () => {
  test('fast polling gets slow_down, and waits longer from then on', async () => {
    const login = await begin()
    expect(await reasonOfPoll(login)).toBe('authorization_pending')
    clock.advance(4 * SECOND_MS)
    expect(await reasonOfPoll(login)).toBe('slow_down')
    // Ten seconds from now on.
    clock.advance(9 * SECOND_MS)
    expect(await reasonOfPoll(login)).toBe('slow_down')
    clock.advance(15 * SECOND_MS)
    expect(await reasonOfPoll(login)).toBe('authorization_pending')
    await approve(login.user_code)
    expect((await poll(login)).status).toBe(200)
  })

  test('ten minutes end it', async () => {
    const login = await begin()
    clock.advance(10 * MINUTE_MS)
    expect(reasonOf(await approve(login.user_code))).toBe('device_code_not_found')
    expect(await reasonOfPoll(login)).toBe('expired_token')
  })

  test('five wrong codes end what the person could approve', async () => {
    const login = await begin()
    const reasons: Array<string | undefined> = []
    for (let n = 0; n < 5; n += 1) reasons.push(reasonOf(await approve('BBBB-BBBB')))
    expect(reasons).toEqual([...Array.from({ length: 4 }, () => 'device_code_not_found'), 'too_many_device_codes'])
    const right = await approve(login.user_code)
    expect([right.status, reasonOf(right)]).toEqual([429, 'too_many_device_codes'])
    expect(reasonOf(await person.send('POST', '/v2/device/find', { userCode: login.user_code }))).toBe(
      'too_many_device_codes',
    )
    clock.advance(10 * MINUTE_MS)
    expect(await reasonOfPoll(login)).toBe('expired_token')
    // A new code can be typed now.
    expect((await approve((await begin()).user_code)).status).toBe(200)
  })

  test('twenty wrong codes at once are counted one by one', async () => {
    const login = await begin()
    const tries = await Promise.all(Array.from({ length: 20 }, () => approve('BBBB-BBBB')))
    expect(tries.filter((one) => reasonOf(one) === 'device_code_not_found')).toHaveLength(4)
    expect(reasonOf(await approve(login.user_code))).toBe('too_many_device_codes')
  })

  test('a refused login ends for the device', async () => {
    const login = await begin()
    expect((await person.send('POST', '/v2/device/deny', { userCode: login.user_code })).status).toBe(200)
    expect(await reasonOfPoll(login)).toBe('access_denied')
    expect(reasonOf(await approve(login.user_code))).toBe('device_code_not_found')
  })

  test('a network begins at most 60 logins an hour', async () => {
    const trusting = await testServer({
      databaseUrl: server.databaseUrl,
      clock,
      runLoops: false,
      env: { BERTH_TRUST_PROXY: '1', BERTH_PUBLIC_URL: PUBLIC_URL },
    })
    const from = (address: string) =>
      trusting.anonymous('POST', '/v2/device/code', { host_name: 'many' }, { 'X-Forwarded-For': address })
    const statuses: number[] = []
    for (let n = 0; n < 60; n += 1) statuses.push((await from('203.0.113.7')).status)
    expect(new Set(statuses)).toEqual(new Set([200]))
    const refused = await from('203.0.113.7')
    expect([refused.status, refused.body.reason]).toEqual([429, 'too_many_device_logins'])
    expect((await from('203.0.113.8')).status).toBe(200)
    // All IPv6 addresses of one client are one network.
    for (let n = 0; n < 60; n += 1) await from(`2001:db8:0:1::${n.toString(16)}`)
    expect((await from('2001:db8:0:1:ffff::1')).body.reason).toBe('too_many_device_logins')
    expect((await from('2001:db8:0:2::1')).status).toBe(200)
    await trusting.close()
  })
})

describe('promise 27: a device key has at most the approver’s scopes, ends, and is listed', () => {
  test('it is given once, works, is listed, and ends', async () => {
    const login = await begin()
    const approved = bodyOf(await approve(login.user_code, { scopes: ['inference', 'keys'], days: 2 }))
    const token = await poll(login)
    expect(token.body).toMatchObject({
      token_type: 'Bearer',
      expires_in: 2 * 86_400,
      scope: 'inference keys',
      key_id: approved['id'],
      account_id: account.id,
    })
    expect(token.headers.get('cache-control')).toBe('no-store')
    expect(await reasonOfPoll(login)).toBe('expired_token')
    const device = server.as(token.body.access_token as string)
    expect((await device('GET', '/v2/users/me')).body.account).toMatchObject({ id: account.id })
    const keys = (await account.call('GET', '/v2/api-keys')).body.apiKeys as Array<Record<string, unknown>>
    expect(keys.find(({ kind }) => kind === 'device')).toMatchObject({
      publicId: approved['id'],
      name: 'berth login on workstation',
      expiresAt: new Date(clock.now() + 2 * DAY_MS).toISOString(),
    })
    const devices = bodyOf(await person.send('GET', '/v2/people/me/devices'))['devices'] as Array<{ id: string }>
    expect(devices.map(({ id }) => id)).toEqual([approved['id']])
    clock.advance(2 * DAY_MS)
    expect((await device('GET', '/v2/users/me')).body.reason).toBe('expired_key')
  })

  test('it has no scope that the person lacks in the account', async () => {
    const login = await begin()
    expect(reasonOf(await approve(login.user_code, { scopes: ['operator'] }))).toBe('scope_not_held')
    expect(reasonOf(await approve(login.user_code, { scopes: ['supply'] }))).toBe('scope_not_held')
    expect((await approve(login.user_code, { days: 91 })).status).toBe(400)
    const stranger = await signUp(`stranger-${people}@example.test`)
    expect(reasonOf(await approve(login.user_code, { accountId: stranger.account.id }))).toBe('account_not_found')
    // Refused approvals do not change the login.
    expect((await approve(login.user_code)).status).toBe(200)
    expect((await poll(login)).body.scope).toBe('inference')
  })

  test('a viewer’s device can only read', async () => {
    const email = `viewer-${people}@example.test`
    await account.call('POST', '/v2/members', { email, role: 'viewer' })
    const viewer = new TestBrowser(server.url, mails)
    await viewer.signIn(email)
    const offers = bodyOf(await viewer.send('GET', '/v2/people/me'))['offers'] as Array<{ id: string }>
    expect((await viewer.send('POST', `/v2/people/me/offers/${offers[0]?.id}/accept`)).status).toBe(200)
    const login = await begin()
    const decide = (scopes: string[]) =>
      viewer.send('POST', '/v2/device/approve', { userCode: login.user_code, accountId: account.id, scopes })
    expect(reasonOf(await decide(['compute:write']))).toBe('scope_not_held')
    expect((await decide(['compute:read'])).status).toBe(200)
  })

  test('operator rights need a sign-in of the last 15 minutes (promise 30)', async () => {
    const { email } = (await server.operator('GET', '/v2/users/me')).body as { email: string }
    const operator = new TestBrowser(server.url, mails)
    await operator.signIn(email)
    // A member of the first minute, or one to whom it is still offered.
    await operator.send('POST', '/v2/people/me/offers/operator/accept')
    clock.advance(16 * MINUTE_MS)
    const body = { userCode: (await begin()).user_code, accountId: 'operator', scopes: ['operator'] }
    const decide = () => operator.send('POST', '/v2/device/approve', body)
    expect(reasonOf(await decide())).toBe('recent_sign_in_required')
    await operator.signIn(email)
    expect((await decide()).status).toBe(200)
  })

  test('the person ends it in the console, and the device by itself', async () => {
    const login = async (scopes = ['inference']) => {
      const begun = await begin()
      await approve(begun.user_code, { scopes })
      const { access_token: key, key_id: id } = (await poll(begun)).body as { access_token: string; key_id: string }
      return { id, call: server.as(key) }
    }
    const isRefused = async ({ call }: { call: Call }) =>
      (await call('GET', '/v2/users/me')).body.reason === 'invalid_key'
    const [first, second, third, fourth] = [await login(), await login(), await login(), await login()]
    expect((await person.send('DELETE', `/v2/people/me/devices/${first.id}`)).status).toBe(200)
    expect(await isRefused(first)).toBe(true)
    expect((await second.call('POST', '/v2/device/log-out', {})).body).toEqual({ ended: 1 })
    expect([await isRefused(second), await isRefused(third)]).toEqual([true, false])
    expect((await third.call('POST', '/v2/device/log-out', { everywhere: true })).body).toEqual({ ended: 2 })
    expect([await isRefused(third), await isRefused(fourth)]).toEqual([true, true])
    // A key that an owner could have created for somebody else ends no device.
    expect((await account.call('POST', '/v2/device/log-out', { everywhere: true })).body.reason).toBe('not_a_device')
    const stranger = await signUp(`other-${people}@example.test`)
    const other = await login()
    const refused = await stranger.person.send('DELETE', `/v2/people/me/devices/${other.id}`)
    expect([refused.status, reasonOf(refused)]).toEqual([404, 'device_not_found'])
  })

  test('a key that no device fetched is revoked', async () => {
    const login = await begin()
    const { id } = bodyOf(await approve(login.user_code))
    clock.advance(10 * MINUTE_MS)
    await waitFor('the end of the key', async () => {
      await sweepExpired(server.app).run(new AbortController().signal)
      const keys = (await account.call('GET', '/v2/api-keys')).body.apiKeys as Array<Record<string, unknown>>
      return keys.find(({ publicId }) => publicId === id)?.['revokedAt'] !== null
    })
    expect(await reasonOfPoll(login)).toBe('expired_token')
  })
})
