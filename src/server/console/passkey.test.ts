/** Passkeys, recovery codes, step-up and the required factor. Promises 12, 28, 29 and 30 of sign-in. */
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Authenticator, type Faults } from '../../../test/harness/authenticator.ts'
import { ask, consoleHeaders, type Answer } from '../../../test/harness/console.ts'
import { startMailServer, type MailServer } from '../../../test/harness/mail-server.ts'
import { reasonOf, requireDone, TestBrowser } from '../../../test/harness/people.ts'
import { testServer, type Call, type TestServer } from '../../../test/harness/server.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import { HOUR_MS, MINUTE_MS, toDate } from '../../base/instant.ts'
import {
  ADD_PASSKEY_PATH,
  BEGIN_PASSKEY_PATH,
  PASSKEY_PATH,
  RECOVERY_CODE_PATH,
  REDEEM_PASSKEY_PATH,
} from '../../contract/session.ts'

const ORIGIN = 'https://cloud.example'
const clock = manualClock()
let mails: MailServer
let server: TestServer
let person: TestBrowser
let email: string
let account: { id: string; call: Call }
let people = 0

beforeAll(async () => {
  mails = await startMailServer()
  server = await testServer({
    clock,
    env: { BERTH_PUBLIC_URL: ORIGIN, BERTH_SMTP_URL: mails.url, BERTH_MAIL_FROM: 'berth@cloud.example' },
  })
})
afterAll(async () => {
  await server.close()
  await mails.close()
})
beforeEach(async () => {
  people += 1
  clock.advance(MINUTE_MS)
  email = `passkey-${people}@example.test`
  const opened = await server.operator('POST', '/v2/operator/accounts', { name: email, ownerEmail: email })
  account = { id: (opened.body.account as { id: string }).id, call: server.as(opened.body.key as string) }
  person = new TestBrowser(server.url, mails)
  await person.signIn(email)
  requireDone(await person.send('POST', `/v2/people/me/offers/${account.id}/accept`))
})

// oxlint-disable-next-line typescript/no-explicit-any
const bodyOf = ({ text }: Answer): any => JSON.parse(text)

async function addPasskey(browser: TestBrowser, authenticator: Authenticator, faults: Faults = {}): Promise<Answer> {
  const options = await browser.send('POST', BEGIN_PASSKEY_PATH)
  if (options.status !== 200) return options
  const response = authenticator.create(bodyOf(options), faults)
  return browser.send('POST', ADD_PASSKEY_PATH, { name: 'Phone', response })
}

async function signIn(browser: TestBrowser, authenticator: Authenticator, faults: Faults = {}): Promise<Answer> {
  const options = bodyOf(await browser.send('POST', PASSKEY_PATH))
  return browser.send('POST', REDEEM_PASSKEY_PATH, authenticator.get(options, faults))
}

async function enrolled(options = {}): Promise<Authenticator> {
  const authenticator = new Authenticator(ORIGIN, options)
  expect((await addPasskey(person, authenticator)).status).toBe(200)
  return authenticator
}

const sessionOf = async (browser: TestBrowser) => bodyOf(await browser.send('GET', '/v2/people/me')).session

describe('a passkey', () => {
  test.each([{ isSynced: false }, { isSynced: true }])('signs in without a name (%j)', async (options) => {
    const authenticator = await enrolled(options)
    const browser = new TestBrowser(server.url, mails)
    for (let n = 0; n < 2; n += 1) expect((await signIn(browser, authenticator)).status).toBe(200)
    expect(bodyOf(await browser.send('GET', '/v2/people/me'))).toMatchObject({
      email,
      session: { method: 'passkey', factorAt: new Date(clock.now()).toISOString() },
      accounts: [{ accountId: account.id, isCurrent: true }],
    })
    const { passkeys } = bodyOf(await browser.send('GET', '/v2/people/me/factors'))
    expect(passkeys).toMatchObject([{ name: 'Phone', lastUsedAt: new Date(clock.now()).toISOString(), ...options }])
  })

  test('is asked for by the rules: discoverable, with a check of the person, of no manufacturer', async () => {
    const options = bodyOf(await person.send('POST', BEGIN_PASSKEY_PATH))
    expect(options).toMatchObject({
      rp: { id: 'cloud.example' },
      user: { name: email },
      attestation: 'none',
      authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    })
    const request = bodyOf(await new TestBrowser(server.url, mails).send('POST', PASSKEY_PATH))
    expect(request).toMatchObject({ rpId: 'cloud.example', userVerification: 'required' })
    expect(request.allowCredentials ?? []).toEqual([])
  })

  test('is renamed and removed by its person, and by nobody else', async () => {
    await enrolled()
    const { id } = bodyOf(await person.send('GET', '/v2/people/me/factors')).passkeys[0]
    expect(bodyOf(await person.send('PATCH', `/v2/people/me/passkeys/${id}`, { name: 'Key' })).name).toBe('Key')
    const stranger = new TestBrowser(server.url, mails)
    await server.operator('POST', '/v2/operator/accounts', { name: 'x', ownerEmail: `other-${people}@example.test` })
    await stranger.signIn(`other-${people}@example.test`)
    expect(reasonOf(await stranger.send('PATCH', `/v2/people/me/passkeys/${id}`, { name: 'Mine' }))).toBe(
      'passkey_not_found',
    )
    expect(reasonOf(await stranger.send('DELETE', `/v2/people/me/passkeys/${id}`))).toBe('passkey_not_found')
    expect((await person.send('DELETE', `/v2/people/me/passkeys/${id}`)).status).toBe(200)
    expect(bodyOf(await person.send('GET', '/v2/people/me/factors')).passkeys).toEqual([])
  })

  test('of a removed row signs nobody in', async () => {
    const authenticator = await enrolled()
    const { id } = bodyOf(await person.send('GET', '/v2/people/me/factors')).passkeys[0]
    await person.send('DELETE', `/v2/people/me/passkeys/${id}`)
    expect(reasonOf(await signIn(new TestBrowser(server.url, mails), authenticator))).toBe('passkey_unknown')
  })

  test('of a disabled person signs nobody in (promise 15)', async () => {
    const authenticator = await enrolled()
    const { id } = bodyOf(await person.send('GET', '/v2/people/me'))
    await server.operator('PATCH', `/v2/operator/people/${id}`, { disabled: true, reason: 'test' })
    expect(reasonOf(await signIn(new TestBrowser(server.url, mails), authenticator))).toBe('person_disabled')
  })
})

describe('promise 28: a passkey with another origin, relying party, challenge or a lower counter is refused', () => {
  const other = Buffer.alloc(32, 7).toString('base64url')
  const faults: ReadonlyArray<readonly [string, Faults, string]> = [
    ['another origin', { origin: 'https://cloud.example.evil.test' }, 'passkey_refused'],
    ['plain HTTP', { origin: 'http://cloud.example' }, 'passkey_refused'],
    ['another relying party', { rpId: 'evil.test' }, 'passkey_refused'],
    ['another challenge', { challenge: other }, 'passkey_expired'],
    ['the ceremony of the other kind', { type: 'webauthn.other' }, 'passkey_refused'],
    ['nobody there', { isPresent: false }, 'passkey_refused'],
    ['a person who was not checked', { isVerified: false }, 'passkey_refused'],
  ]
  const answers: typeof faults = [
    ...faults,
    ['another key', { isForged: true }, 'passkey_refused'],
    ['the id of another person', { userHandle: Buffer.from('usr_other').toString('base64url') }, 'passkey_refused'],
  ]

  test.each(answers)('sign-in: %s', async (_, fault, reason) => {
    const authenticator = await enrolled()
    const browser = new TestBrowser(server.url, mails)
    expect(reasonOf(await signIn(browser, authenticator, fault))).toBe(reason)
    expect(browser.cookies.has('berth_session')).toBe(false)
    // The same without the fault.
    expect((await signIn(browser, authenticator)).status).toBe(200)
  })

  test.each(faults)('adding one: %s', async (_, fault, reason) => {
    expect(reasonOf(await addPasskey(person, new Authenticator(ORIGIN), fault))).toBe(reason)
    expect(bodyOf(await person.send('GET', '/v2/people/me/factors')).passkeys).toEqual([])
    expect((await addPasskey(person, new Authenticator(ORIGIN))).status).toBe(200)
  })

  test('a statement with certificates is refused before anything in them is read', async () => {
    const attStmt = new Map([
      ['alg', -7],
      ['sig', Buffer.alloc(64)],
      ['x5c', [Buffer.alloc(100)]],
    ] as Array<[string, number | Buffer | Buffer[]]>)
    const attestation = { fmt: 'packed', attStmt }
    expect(reasonOf(await addPasskey(person, new Authenticator(ORIGIN), { attestation }))).toBe('passkey_refused')
  })

  test('a counter that does not grow is refused, and the higher one stays', async () => {
    const authenticator = await enrolled()
    const browser = new TestBrowser(server.url, mails)
    expect((await signIn(browser, authenticator, { counter: 5 })).status).toBe(200)
    for (const counter of [5, 4, 0])
      expect(reasonOf(await signIn(browser, authenticator, { counter }))).toBe('passkey_refused')
    expect((await signIn(browser, authenticator, { counter: 6 })).status).toBe(200)
  })

  test('two answers at once with one counter sign in once', async () => {
    const authenticator = await enrolled()
    const browsers = Array.from({ length: 4 }, () => new TestBrowser(server.url, mails))
    const answers = await Promise.all(browsers.map((browser) => signIn(browser, authenticator, { counter: 9 })))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
  })

  test('an answer works once, in the browser that asked, for ten minutes at most', async () => {
    const authenticator = await enrolled()
    const browser = new TestBrowser(server.url, mails)
    const answer = authenticator.get(bodyOf(await browser.send('POST', PASSKEY_PATH)))
    const stolen = new TestBrowser(server.url, mails)
    await stolen.send('POST', PASSKEY_PATH)
    expect(reasonOf(await stolen.send('POST', REDEEM_PASSKEY_PATH, answer))).toBe('passkey_expired')
    expect((await browser.send('POST', REDEEM_PASSKEY_PATH, answer)).status).toBe(200)
    expect(reasonOf(await browser.send('POST', REDEEM_PASSKEY_PATH, answer))).toBe('passkey_expired')
    const lateAnswer = authenticator.get(bodyOf(await browser.send('POST', PASSKEY_PATH)))
    clock.advance(10 * MINUTE_MS)
    expect(reasonOf(await browser.send('POST', REDEEM_PASSKEY_PATH, lateAnswer))).toBe('passkey_expired')
  })

  test('other sites can begin and end nothing', async () => {
    const headers = { ...consoleHeaders, 'Sec-Fetch-Site': 'cross-site', Cookie: person.headers()['Cookie'] ?? '' }
    for (const path of [PASSKEY_PATH, REDEEM_PASSKEY_PATH, BEGIN_PASSKEY_PATH, ADD_PASSKEY_PATH, RECOVERY_CODE_PATH]) {
      const answer = await ask(server.url, path, { method: 'POST', headers, body: {} })
      expect([path, reasonOf(answer)]).toEqual([path, 'cross_site'])
    }
  })
})

describe('promise 30: what is dangerous needs a sign-in of the last 15 minutes', () => {
  test('promise 12: a passkey renews the session, with a new token and in the same account', async () => {
    const authenticator = await enrolled()
    clock.advance(16 * MINUTE_MS)
    expect(reasonOf(await person.send('POST', BEGIN_PASSKEY_PATH))).toBe('recent_sign_in_required')
    const [before, token] = [await sessionOf(person), person.cookies.get('berth_session')]
    expect((await signIn(person, authenticator)).status).toBe(200)
    const after = await sessionOf(person)
    expect(after).toMatchObject({
      id: before.id,
      method: 'passkey',
      authenticatedAt: new Date(clock.now()).toISOString(),
    })
    const old = { ...consoleHeaders, Cookie: `berth_session=${token}` }
    expect(reasonOf(await ask(server.url, '/v2/people/me', { headers: old }))).toBe('session_ended')
    expect((await person.send('POST', BEGIN_PASSKEY_PATH)).status).toBe(200)
  })

  test('a passkey of somebody else does not renew it', async () => {
    const [browser, before] = [person, await sessionOf(person)]
    const stranger = `stranger-${people}@example.test`
    await server.operator('POST', '/v2/operator/accounts', { name: stranger, ownerEmail: stranger })
    person = new TestBrowser(server.url, mails)
    await person.signIn(stranger)
    const authenticator = await enrolled()
    await signIn(browser, authenticator)
    const now = await sessionOf(browser)
    expect(now.id).not.toBe(before.id)
    expect(bodyOf(await browser.send('GET', '/v2/people/me')).email).toBe(stranger)
  })

  test('who reads the mail of a person with a passkey adds no other, removes none and makes no codes', async () => {
    await enrolled()
    const thief = new TestBrowser(server.url, mails)
    clock.advance(HOUR_MS)
    await thief.signIn(email)
    const { id } = bodyOf(await thief.send('GET', '/v2/people/me/factors')).passkeys[0]
    const refusals = [
      await addPasskey(thief, new Authenticator(ORIGIN)),
      await thief.send('DELETE', `/v2/people/me/passkeys/${id}`),
      await thief.send('POST', '/v2/people/me/recovery-codes'),
    ].map(reasonOf)
    expect(refusals).toEqual(['passkey_required', 'passkey_required', 'passkey_required'])
  })
})

test('a session that an account’s own provider opened changes nothing that holds in other accounts', async () => {
  const { db } = server.app.database
  const provider = `own-${people}`
  await sql`
    insert into identity_provider (id, account_id, kind, name, issuer, client_id, created_at)
    values (${provider}, ${account.id}, 'oidc', 'Own', 'https://own.example', 'berth', ${toDate(clock.now())})`.execute(
    db,
  )
  const { id } = await sessionOf(person)
  await db
    .updateTable('console_session')
    .set({ provider_id: provider, method: 'provider' })
    .where('id', '=', id)
    .execute()
  const refusals = [
    await addPasskey(person, new Authenticator(ORIGIN)),
    await person.send('POST', '/v2/people/me/recovery-codes'),
    await person.send('POST', '/v2/people/me/terms', { version: 1 }),
  ]
  expect(refusals.map(reasonOf)).toEqual(['sso_other_account', 'sso_other_account', 'sso_other_account'])
})

describe('recovery codes', () => {
  const make = async (): Promise<string[]> => bodyOf(await person.send('POST', '/v2/people/me/recovery-codes')).codes

  test('are ten, stand once each for a passkey, and end with the next ten', async () => {
    expect(reasonOf(await person.send('POST', '/v2/people/me/recovery-codes'))).toBe('no_passkey')
    await enrolled()
    const codes = await make()
    expect(new Set(codes).size).toBe(10)
    const browser = new TestBrowser(server.url, mails)
    clock.advance(HOUR_MS)
    await browser.signIn(email)
    const use = (code = '') => browser.send('POST', RECOVERY_CODE_PATH, { code })
    const token = browser.cookies.get('berth_session')
    expect((await use(codes[0]?.toUpperCase().replaceAll('-', ' '))).status).toBe(200)
    expect(browser.cookies.get('berth_session')).not.toBe(token)
    expect((await sessionOf(browser)).factorAt).toBe(new Date(clock.now()).toISOString())
    expect([reasonOf(await use(codes[0])), reasonOf(await use('2222-2222-2222'))]).toEqual([
      'wrong_recovery_code',
      'wrong_recovery_code',
    ])
    expect(bodyOf(await browser.send('GET', '/v2/people/me/factors')).recoveryCodes.unused).toBe(9)
    // With one they get on: a new passkey, and new codes.
    expect((await addPasskey(browser, new Authenticator(ORIGIN))).status).toBe(200)
    expect((await browser.send('POST', '/v2/people/me/recovery-codes')).status).toBe(200)
    expect(reasonOf(await use(codes[1]))).toBe('wrong_recovery_code')
  })

  test('are stored as hashes, count for their person only, and are used once at a time', async () => {
    await enrolled()
    const codes = await make()
    const rows = await server.app.database.db.selectFrom('recovery_code').selectAll().execute()
    const stored = JSON.stringify(rows.map((row) => row.code_hash.toString('utf8')))
    for (const code of codes) expect(stored).not.toContain(code.replaceAll('-', ''))
    const used = await Promise.all(
      Array.from({ length: 5 }, () => person.send('POST', RECOVERY_CODE_PATH, { code: codes[0] })),
    )
    expect(used.filter(({ status }) => status === 200)).toHaveLength(1)
    const stranger = `codes-${people}@example.test`
    await server.operator('POST', '/v2/operator/accounts', { name: stranger, ownerEmail: stranger })
    const browser = new TestBrowser(server.url, mails)
    await browser.signIn(stranger)
    expect(reasonOf(await browser.send('POST', RECOVERY_CODE_PATH, { code: codes[1] }))).toBe('wrong_recovery_code')
  })

  test('an operator removes everything for a person who lost everything; their sessions end', async () => {
    const authenticator = await enrolled()
    await make()
    const { id } = bodyOf(await person.send('GET', '/v2/people/me'))
    const reset = await server.operator('POST', `/v2/operator/people/${id}/reset-factors`, { reason: 'lost the phone' })
    expect(reset.body).toEqual({ passkeys: 1 })
    expect(reasonOf(await person.send('GET', '/v2/people/me'))).toBe('session_ended')
    expect(reasonOf(await signIn(person, authenticator))).toBe('passkey_unknown')
    await person.signIn(email)
    expect(bodyOf(await person.send('GET', '/v2/people/me/factors'))).toMatchObject({
      passkeys: [],
      recoveryCodes: { unused: 0 },
    })
    expect((await addPasskey(person, new Authenticator(ORIGIN))).status).toBe(200)
  })
})

describe('promise 29: a required factor holds for every session of a member', () => {
  const require = (requiresFactor: boolean) => person.send('PATCH', '/v2/account/settings', { requiresFactor })

  test('who switches it on has shown one; then only sessions that did get in, and keys go on', async () => {
    expect(reasonOf(await require(true))).toBe('passkey_required')
    const authenticator = await enrolled()
    expect(bodyOf(await require(true)).requiresFactor).toBe(true)
    clock.advance(HOUR_MS)
    const other = new TestBrowser(server.url, mails)
    await other.signIn(email)
    const refused = ['/v2/users/me', '/v2/api-keys', '/v2/members', '/v2/rentals'].map((path) =>
      other.send('GET', path),
    )
    expect((await Promise.all(refused)).map(reasonOf)).toEqual(Array.from({ length: 4 }, () => 'factor_required'))
    expect((await account.call('GET', '/v2/api-keys')).status).toBe(200)
    // The person can still read who they are, and sign in with a passkey.
    expect(bodyOf(await other.send('GET', '/v2/people/me')).accounts).toMatchObject([{ requiresFactor: true }])
    expect((await signIn(other, authenticator)).status).toBe(200)
    expect((await other.send('GET', '/v2/api-keys')).status).toBe(200)
  })

  test('a member without one adds it, and is in', async () => {
    await enrolled()
    await require(true)
    const member = `member-${people}@example.test`
    await account.call('POST', '/v2/members', { email: member, role: 'member' })
    const browser = new TestBrowser(server.url, mails)
    await browser.signIn(member)
    const { offers } = bodyOf(await browser.send('GET', '/v2/people/me'))
    expect((await browser.send('POST', `/v2/people/me/offers/${offers[0].id}/accept`)).status).toBe(200)
    expect(reasonOf(await browser.send('GET', '/v2/users/me'))).toBe('factor_required')
    const members = (await account.call('GET', '/v2/members')).body.members as Array<Record<string, unknown>>
    expect(members.map(({ hasPasskey }) => hasPasskey).toSorted((one, other) => Number(one) - Number(other))).toEqual([
      false,
      true,
    ])
    expect((await addPasskey(browser, new Authenticator(ORIGIN))).status).toBe(200)
    expect((await browser.send('GET', '/v2/users/me')).status).toBe(200)
  })

  test('a new login of a device needs it too', async () => {
    await enrolled()
    await require(true)
    clock.advance(HOUR_MS)
    const other = new TestBrowser(server.url, mails)
    await other.signIn(email)
    const begun = await server.anonymous('POST', '/v2/device/code', { host_name: 'laptop' })
    const body = { userCode: begun.body.user_code, accountId: account.id, scopes: ['inference'] }
    expect(reasonOf(await other.send('POST', '/v2/device/approve', body))).toBe('factor_required')
  })

  test('switching it off needs a recent sign-in', async () => {
    const authenticator = await enrolled()
    await require(true)
    clock.advance(16 * MINUTE_MS)
    expect(reasonOf(await require(false))).toBe('recent_sign_in_required')
    await signIn(person, authenticator)
    expect(bodyOf(await require(false)).requiresFactor).toBe(false)
  })
})
