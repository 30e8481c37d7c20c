/** Invitations, offers and sessions of people, with browsers and a mailbox. Promises 5, 14, 15, 19 to 24 and 30 of sign-in. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ask, consoleHeaders } from '../../../test/harness/console.ts'
import { reasonOf, TestBrowser } from '../../../test/harness/people.ts'
import { startMailServer, textOf, type MailServer, type ReceivedMail } from '../../../test/harness/mail-server.ts'
import { testServer, type Call, type TestServer } from '../../../test/harness/server.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../../base/instant.ts'
import { insertPasskey } from '../../store/account/passkey.ts'
import { transact } from '../../store/platform/database.ts'

const PUBLIC_URL = 'https://cloud.example'
const clock = manualClock()
let mails: MailServer
let server: TestServer
let other: TestServer
let people = 0
let invited: string
beforeAll(async () => {
  mails = await startMailServer()
  const env = { BERTH_PUBLIC_URL: PUBLIC_URL, BERTH_SMTP_URL: mails.url, BERTH_MAIL_FROM: 'berth@cloud.example' }
  server = await testServer({ clock, env })
  other = await testServer({ clock, env, databaseUrl: server.databaseUrl, runLoops: false })
})
afterAll(async () => {
  await other.close()
  await server.close()
  await mails.close()
})
beforeEach(() => {
  people += 1
  invited = `invited-${people}@example.test`
  mails.received.length = 0
})

interface Owner {
  readonly browser: TestBrowser
  readonly accountId: string
  readonly personId: string
  readonly key: Call
}

/** An account whose owner has accepted it. */
async function openAccount(): Promise<Owner> {
  people += 1
  const email = `owner-of-${people}@example.test`
  const opened = await server.operator('POST', '/v2/operator/accounts', { name: `Lab ${people}`, ownerEmail: email })
  const accountId = (opened.body.account as { id: string }).id
  const browser = await signedIn(email)
  const accepted = await browser.send('POST', `/v2/people/me/offers/${accountId}/accept`)
  expect([accepted.status, JSON.parse(accepted.text)]).toMatchObject([200, { accountId, role: 'owner' }])
  const personId = (await me(browser)).id
  return { browser, accountId, personId, key: server.as(opened.body.key as string) }
}

async function signedIn(email: string): Promise<TestBrowser> {
  const browser = new TestBrowser(server.url, mails)
  await browser.signIn(email)
  return browser
}

interface Page {
  readonly id: string
  readonly session: { readonly id: string }
  readonly accounts: ReadonlyArray<{ readonly accountId: string; readonly role: string; readonly isCurrent: boolean }>
  readonly offers: ReadonlyArray<{ readonly id: string; readonly accountId: string | null; readonly role: string }>
}

async function me(browser: TestBrowser): Promise<Page> {
  return JSON.parse((await browser.send('GET', '/v2/people/me')).text) as Page
}

/** Returns the id in the link of the message. */
async function invite({ browser }: Pick<Owner, 'browser'>, email: string, role = 'member'): Promise<string> {
  const before = mails.received.length
  const sent = await browser.send('POST', '/v2/invitations', { email, role })
  expect([sent.status, sent.text]).toEqual([200, sent.text])
  const mail = await invitationTo(email, before)
  return linkOf(textOf(mail))
}

/** Other messages, such as those to the operator, may arrive meanwhile. */
function invitationTo(address: string, before = 0): Promise<ReceivedMail> {
  return waitFor('the invitation', () =>
    mails.received.slice(before).find((mail) => mail.to.includes(address) && textOf(mail).includes('/invitations/')),
  )
}

function linkOf(text: string): string {
  const id = new RegExp(`${PUBLIC_URL}/invitations/(inv_[0-9A-Za-z]+)`).exec(text)?.[1]
  if (id === undefined) throw new Error(`no link in ${text}`)
  return id
}

const accept = (browser: TestBrowser, id: string) => browser.send('POST', `/v2/people/me/offers/${id}/accept`)

test('an invited person signs in, accepts, and acts in the account; the owner sees it', async () => {
  const owner = await openAccount()
  const id = await invite(owner, invited, 'viewer')
  const browser = await signedIn(invited)
  expect(await me(browser)).toMatchObject({
    accounts: [],
    offers: [{ id, accountId: owner.accountId, role: 'viewer' }],
  })
  expect((await accept(browser, id)).status).toBe(200)
  expect((await me(browser)).accounts).toMatchObject([{ accountId: owner.accountId, role: 'viewer', isCurrent: true }])
  const members = JSON.parse((await owner.browser.send('GET', '/v2/members')).text) as { members: unknown[] }
  expect(members.members).toContainEqual(expect.objectContaining({ email: invited, state: 'active', role: 'viewer' }))
  expect(reasonOf(await accept(browser, id))).toBe('invitation_not_found')
})

test('a member who was added is invited, may have keys at once, and accepts by mail', async () => {
  const owner = await openAccount()
  mails.received.length = 0
  const added = await owner.key('POST', '/v2/members', { email: invited, role: 'member' })
  expect(added.body).toMatchObject({ email: invited, state: 'invited' })
  const key = await owner.key('POST', '/v2/api-keys', { name: 'k', memberId: added.body.id, scopes: ['inference'] })
  expect(key.status).toBe(200)
  const mail = await invitationTo(invited)
  const browser = await signedIn(invited)
  expect((await accept(browser, linkOf(textOf(mail)))).status).toBe(200)
  expect((await me(browser)).accounts).toMatchObject([{ accountId: owner.accountId, role: 'member' }])
})

test('promise 5: an account opened with the address of a stranger is only an offer until they accept it', async () => {
  const opened = await server.operator('POST', '/v2/operator/accounts', { name: 'Offer', ownerEmail: invited })
  const accountId = (opened.body.account as { id: string }).id
  const browser = await signedIn(invited)
  expect(await me(browser)).toMatchObject({ accounts: [], offers: [{ id: accountId, accountId, role: 'owner' }] })
  expect(reasonOf(await browser.send('GET', '/v2/customer/balance'))).toBe('no_account')
  expect(reasonOf(await browser.send('POST', '/v2/people/me/account', { accountId }))).toBe('account_not_found')
  // Without another owner nobody could manage the account.
  expect(reasonOf(await browser.send('POST', `/v2/people/me/offers/${accountId}/decline`))).toBe('last_owner')
  expect((await accept(browser, accountId)).status).toBe(200)
  expect((await browser.send('GET', '/v2/customer/balance')).status).toBe(200)
})

test('promise 20: opening the link of an invitation changes nothing', async () => {
  const owner = await openAccount()
  const id = await invite(owner, invited)
  const browser = await signedIn(invited)
  const read = () =>
    server.app.database.db.selectFrom('invitation').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  const before = await read()
  for (const path of [`/invitations/${id}`, `/invitations/${id}?accept=1`, `/v2/people/me/offers/${id}/accept`]) {
    await browser.send('GET', path, undefined, { Accept: 'text/html' })
    await ask(server.url, path, { headers: { Accept: 'text/html' } })
  }
  expect(await read()).toEqual(before)
  expect((await me(browser)).accounts).toEqual([])
})

test('promise 21: only the invited, proved address accepts', async () => {
  const owner = await openAccount()
  const id = await invite(owner, invited)
  const stranger = (await openAccount()).browser
  expect(reasonOf(await accept(stranger, id))).toBe('invitation_not_found')
  expect(reasonOf(await stranger.send('POST', `/v2/people/me/offers/${id}/decline`))).toBe('invitation_not_found')
  const browser = await signedIn(invited)
  const unproved = { email_verified_at: null }
  await server.app.database.db.updateTable('person').set(unproved).where('email', '=', invited).execute()
  expect(reasonOf(await accept(browser, id))).toBe('invitation_not_found')
  await browser.signIn(invited)
  expect((await accept(browser, id)).status).toBe(200)
})

test('promise 19: who adds an address learns nothing about its person before they accept', async () => {
  const stranger = await openAccount()
  const { id, email } = (await stranger.key('GET', '/v2/users/me')).body as { id: string; email: string }
  const passkey = { id: `pky_${people}`, person_id: id, credential_id: `credential-${people}`, name: 'Phone' }
  const more = { public_key: Buffer.alloc(1), counter: 0n, transports: [], is_synced: true }
  await transact(server.app.database, (tx) => insertPasskey(tx, { ...passkey, ...more }))
  const owner = await openAccount()
  const memberWith = async (address: string) =>
    ((await owner.key('GET', '/v2/members')).body.members as Array<Record<string, unknown>>).find(
      (one) => one['email'] === address,
    )
  await owner.key('POST', '/v2/members', { email, role: 'member' })
  expect(await memberWith(email)).toMatchObject({ state: 'invited', hasPasskey: false })
  const offer = (await me(stranger.browser)).offers.find(({ accountId }) => accountId === owner.accountId)
  await accept(stranger.browser, offer?.id ?? '')
  expect(await memberWith(email)).toMatchObject({ state: 'active', hasPasskey: true })
})

test('promise 22: sending it again ends the old link', async () => {
  const owner = await openAccount()
  const old = await invite(owner, invited)
  const id = await invite(owner, invited)
  const browser = await signedIn(invited)
  expect((await me(browser)).offers).toMatchObject([{ id }])
  expect(reasonOf(await accept(browser, old))).toBe('invitation_not_found')
  expect((await accept(browser, id)).status).toBe(200)
})

test('promise 23: the button accepts the invitation that the page shows, and no other', async () => {
  const [first, second] = [await openAccount(), await openAccount()]
  const firstId = await invite(first, invited)
  const secondId = await invite(second, invited)
  const browser = await signedIn(invited)
  expect((await accept(browser, secondId)).status).toBe(200)
  const page = await me(browser)
  expect(page.accounts.map(({ accountId }) => accountId)).toEqual([second.accountId])
  expect(page.offers.map(({ id }) => id)).toEqual([firstId])
})

describe('promise 24', () => {
  test('an invitation of who is no owner any more gives nothing', async () => {
    const owner = await openAccount()
    const secondAddress = `second-${people}@example.test`
    const secondId = await invite(owner, secondAddress, 'owner')
    const second = await signedIn(secondAddress)
    await accept(second, secondId)
    const id = await invite({ browser: second }, invited, 'owner')
    const path = `/v2/members/${(await me(second)).id}`
    expect((await owner.browser.send('PATCH', path, { role: 'member' })).status).toBe(200)
    const browser = await signedIn(invited)
    expect(reasonOf(await accept(browser, id))).toBe('invitation_sender_left')
    expect((await me(browser)).accounts).toEqual([])
    expect(reasonOf(await second.send('POST', '/v2/invitations', { email: invited, role: 'viewer' }))).toBe(
      'owner_only',
    )
  })

  test('the last owner stays; one who can sign in counts, one who has not accepted does not', async () => {
    const owner = await openAccount()
    const self = `/v2/members/${owner.personId}`
    const id = await invite(owner, invited, 'owner')
    expect(reasonOf(await owner.browser.send('PATCH', self, { role: 'member' }))).toBe('last_owner')
    await accept(await signedIn(invited), id)
    expect((await owner.browser.send('PATCH', self, { role: 'member' })).status).toBe(200)
  })
})

test('an invitation ends when it is revoked, declined or seven days old', async () => {
  const owner = await openAccount()
  const revoked = await invite(owner, invited)
  const browser = await signedIn(invited)
  expect((await owner.browser.send('DELETE', `/v2/invitations/${revoked}`)).status).toBe(200)
  expect(reasonOf(await accept(browser, revoked))).toBe('invitation_not_found')
  const declined = await invite(owner, invited)
  expect((await browser.send('POST', `/v2/people/me/offers/${declined}/decline`)).status).toBe(200)
  expect(reasonOf(await accept(browser, declined))).toBe('invitation_not_found')
  const expired = await invite(owner, invited)
  clock.advance(7 * DAY_MS - MINUTE_MS)
  // A session that is renewed still ends after seven days.
  const later = await signedIn(invited)
  expect((await me(later)).offers).toMatchObject([{ id: expired }])
  clock.advance(MINUTE_MS)
  expect(reasonOf(await accept(later, expired))).toBe('invitation_not_found')
})

test('an operator invites somebody to open an account while sign-up is closed', async () => {
  expect((await server.operator('POST', '/v2/operator/invitations', { email: invited })).status).toBe(200)
  const mail = await invitationTo(invited)
  const browser = await signedIn(invited)
  expect((await accept(browser, linkOf(textOf(mail)))).status).toBe(200)
  expect((await me(browser)).accounts).toMatchObject([{ role: 'owner', isCurrent: true }])
})

describe('promise 14', () => {
  const status = async ({ url }: TestServer, browser: TestBrowser): Promise<number> =>
    (await ask(url, '/v2/users/me', { headers: browser.headers() })).status

  test('ended sessions are refused on all servers in a second', async () => {
    const owner = await openAccount()
    const email = JSON.parse((await owner.browser.send('GET', '/v2/users/me')).text).email as string
    const second = await signedIn(email)
    const { id } = (await me(second)).session
    expect([await status(other, second), await status(other, owner.browser)]).toEqual([200, 200])
    await owner.browser.send('DELETE', `/v2/people/me/sessions/${id}`)
    expect(await status(other, second)).toBe(401)
    const third = await signedIn(email)
    expect(await status(other, third)).toBe(200)
    expect((await owner.browser.send('DELETE', '/v2/people/me/sessions')).text).toBe('{"ended":1}')
    expect([await status(other, third), await status(other, owner.browser)]).toEqual([401, 200])
    const cookie = owner.browser.headers()
    await owner.browser.send('DELETE', '/console/session')
    expect((await ask(other.url, '/v2/users/me', { headers: cookie })).status).toBe(401)
  })

  test('a removed member is refused on all servers in a second', async () => {
    const owner = await openAccount()
    const id = await invite(owner, invited)
    const browser = await signedIn(invited)
    await accept(browser, id)
    expect(await status(other, browser)).toBe(200)
    await owner.browser.send('DELETE', `/v2/members/${(await me(browser)).id}`)
    const began = performance.now()
    await waitFor('the other server to refuse', async () => (await status(other, browser)) === 403)
    expect(performance.now() - began).toBeLessThan(SECOND_MS)
    expect(await me(browser)).toMatchObject({ accounts: [], offers: [] })
  })
})

test('a session switches between the accounts of its person, and to no other', async () => {
  const owner = await openAccount()
  const elsewhere = await openAccount()
  const email = JSON.parse((await owner.browser.send('GET', '/v2/users/me')).text).email as string
  await accept(owner.browser, await invite(elsewhere, email))
  const accountOf = async () => JSON.parse((await owner.browser.send('GET', '/v2/users/me')).text).account.id as string
  expect(await accountOf()).toBe(elsewhere.accountId)
  await owner.browser.send('POST', '/v2/people/me/account', { accountId: owner.accountId })
  expect(await accountOf()).toBe(owner.accountId)
  const third = await openAccount()
  const refused = await owner.browser.send('POST', '/v2/people/me/account', { accountId: third.accountId })
  expect(reasonOf(refused)).toBe('account_not_found')
})

test('promise 30: making somebody an owner needs a sign-in of the last 15 minutes; keys need none', async () => {
  const owner = await openAccount()
  clock.advance(15 * MINUTE_MS + 1)
  const body = { email: invited, role: 'owner' }
  expect(reasonOf(await owner.browser.send('POST', '/v2/invitations', body))).toBe('recent_sign_in_required')
  expect((await owner.browser.send('POST', '/v2/invitations', { ...body, role: 'member' })).status).toBe(200)
  expect((await owner.key('POST', '/v2/invitations', body)).status).toBe(200)
})

test('a key of the API cannot act as a person', async () => {
  const answer = await ask(server.url, '/v2/people/me', {
    headers: { ...consoleHeaders, Authorization: `Bearer ${server.demoKey}` },
  })
  expect([answer.status, reasonOf(answer)]).toEqual([403, 'person_session_required'])
})

test('promise 15: disabling a person stops their keys in every account and their sessions, on all servers', async () => {
  const owner = await openAccount()
  const elsewhere = await openAccount()
  const { id, email } = (await owner.key('GET', '/v2/users/me')).body as { id: string; email: string }
  await accept(owner.browser, await invite(elsewhere, email))
  const created = await elsewhere.key('POST', '/v2/api-keys', { name: 'k', memberId: id, scopes: ['compute:read'] })
  const keys = [owner.key, server.as(created.body.key as string)]
  const answers = async () => [
    ...(await Promise.all(keys.map(async (key) => (await key('GET', '/v2/users/me')).body.reason as string))),
    reasonOf(await ask(other.url, '/v2/users/me', { headers: owner.browser.headers() })),
  ]
  expect(await answers()).toEqual([undefined, undefined, undefined])
  const disable = { disabled: true, reason: 'left' }
  expect((await server.operator('PATCH', `/v2/operator/people/${id}`, disable)).body.disabledAt).not.toBeNull()
  const began = performance.now()
  const refusals = ['person_disabled', 'person_disabled', 'session_ended']
  await waitFor('the refusals', async () => JSON.stringify(await answers()) === JSON.stringify(refusals))
  expect(performance.now() - began).toBeLessThan(SECOND_MS)
  await owner.browser.send('POST', '/console/sign-in/code', { email })
  const { mails: withheld } = (await server.operator('GET', `/v2/operator/mails?state=withheld&q=${email}`)).body
  expect(withheld).toMatchObject([{ to: email, about: 'sign-in-code' }])
  await server.operator('PATCH', `/v2/operator/people/${id}`, { disabled: false, reason: 'is back' })
  await waitFor('the key to work', async () => (await owner.key('GET', '/v2/users/me')).status === 200)
  const self = ((await server.operator('GET', '/v2/users/me')).body as { id: string }).id
  const refused = await server.operator('PATCH', `/v2/operator/people/${self}`, disable)
  expect(refused.body).toMatchObject({ issues: [{ path: ['disabled'] }] })
  const listed = (await server.operator('GET', `/v2/operator/people?q=${email}`)).body
  expect(listed.people).toMatchObject([{ id, email, disabledAt: null }])
  // Both were opened at the same instant of the test's clock.
  const [person] = listed.people as Array<{ accounts: Array<{ role: string }> }>
  expect(person?.accounts.map(({ role }) => role).toSorted()).toEqual(['member', 'owner'])
})
