/** Sign-in with a code by email, as a browser and a mailbox see it. Promises 10, 12, 13, 18 and 19 of sign-in. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ask, consoleHeaders, type Answer } from '../../../test/harness/console.ts'
import { reasonOf, TestBrowser } from '../../../test/harness/people.ts'
import { headerOf, startMailServer, type MailServer } from '../../../test/harness/mail-server.ts'
import { testServer, type TestServer } from '../../../test/harness/server.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import { HOUR_MS, MINUTE_MS } from '../../base/instant.ts'
import { CODE_PATH, SIGN_IN_PATH } from '../../contract/session.ts'

const PUBLIC_URL = 'https://cloud.example'
const clock = manualClock()
let mails: MailServer
let server: TestServer
let address: string
let people = 0
beforeAll(async () => {
  mails = await startMailServer()
  server = await testServer({
    clock,
    env: {
      BERTH_PUBLIC_URL: PUBLIC_URL,
      BERTH_SMTP_URL: mails.url,
      BERTH_MAIL_FROM: 'berth@cloud.example',
      BERTH_TRUST_PROXY: '1',
    },
  })
})
afterAll(async () => {
  await server.close()
  await mails.close()
})
beforeEach(async () => {
  people += 1
  address = `person-${people}@example.test`
  mails.received.length = 0
})

/** An account whose owner the operator entered. */
async function openAccount(): Promise<string> {
  const opened = await server.operator('POST', '/v2/operator/accounts', { name: `Lab ${people}`, ownerEmail: address })
  return (opened.body.account as { id: string }).id
}

test('the page learns which ways there are', async () => {
  const ways = await ask(server.url, SIGN_IN_PATH, { headers: consoleHeaders })
  expect(JSON.parse(ways.text)).toEqual({ people: true, code: true, passkey: true, providers: [], signUp: 'closed' })
})

test('a code signs a known person in, once', async () => {
  await openAccount()
  const browser = new TestBrowser(server.url, mails)
  const code = await browser.askForCode(address)
  expect(headerOf(mails.received[0] ?? { from: '', to: [], raw: '' }, 'Subject')).toBe('[Berth] Your sign-in code')
  const signedIn = await browser.redeem(code)
  expect([signedIn.status, signedIn.text]).toEqual([200, '{}'])
  expect(browser.cookies.get('berth_session')).toMatch(/^[\w-]{43}$/)
  expect(reasonOf(await browser.redeem(code))).toBe('code_ended')
})

test('promise 4: a person whom others added does not act for their account before agreeing', async () => {
  const accountId = await openAccount()
  const browser = new TestBrowser(server.url, mails)
  await browser.redeem(await browser.askForCode(address))
  const me = await ask(server.url, '/v2/users/me', { headers: browser.headers() })
  expect([me.status, reasonOf(me)]).toEqual([403, 'no_account'])
  const row = await server.app.database.db
    .selectFrom('member')
    .innerJoin('person', 'person.id', 'member.person_id')
    .select(['member.accepted_at', 'person.email_verified_at'])
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  expect(row.accepted_at).toBeNull()
  expect(row.email_verified_at).not.toBeNull()
})

describe('promise 18', () => {
  test('five wrong codes end the code', async () => {
    await openAccount()
    const browser = new TestBrowser(server.url, mails)
    const code = await browser.askForCode(address)
    const wrong = code.replaceAll(/\d/g, (digit) => String((Number(digit) + 1) % 10))
    const reasons: Array<string | undefined> = []
    for (let n = 0; n < 5; n += 1) reasons.push(reasonOf(await browser.redeem(wrong)))
    expect(reasons).toEqual(['wrong_code', 'wrong_code', 'wrong_code', 'wrong_code', 'code_ended'])
    expect(reasonOf(await browser.redeem(code))).toBe('code_ended')
  })

  test('a new code ends the one before', async () => {
    await openAccount()
    const browser = new TestBrowser(server.url, mails)
    const first = await browser.askForCode(address)
    const second = await browser.askForCode(address)
    expect(reasonOf(await browser.redeem(first))).toBe('wrong_code')
    expect((await browser.redeem(second)).status).toBe(200)
  })

  test('three an hour reach an address, from all browsers together', async () => {
    await openAccount()
    for (let n = 0; n < 3; n += 1) await new TestBrowser(server.url, mails).askForCode(address)
    const refused = await new TestBrowser(server.url, mails).send('POST', CODE_PATH, { email: address.toUpperCase() })
    expect([refused.status, reasonOf(refused)]).toEqual([429, 'too_many_codes'])
    clock.advance(HOUR_MS)
    expect(await new TestBrowser(server.url, mails).askForCode(address)).toMatch(/^\d{4} \d{4}$/)
  })

  test('a hundred an hour are sent for one network, to known and unknown addresses', async () => {
    await openAccount()
    const ask = (n: number, email = `stranger-${n}@example.test`) => {
      const browser = new TestBrowser(server.url, mails)
      // Each client has so many IPv6 addresses of its own.
      browser.address = `2001:db8:1:2::${n.toString(16)}`
      return browser.send('POST', CODE_PATH, { email })
    }
    const statuses: number[] = []
    for (let n = 0; n < 100; n += 1) statuses.push((await ask(n)).status)
    expect(new Set(statuses)).toEqual(new Set([200]))
    for (const email of [address, 'stranger@example.test']) {
      const refused = await ask(100, email)
      expect([refused.status, reasonOf(refused)]).toEqual([429, 'too_many_codes_from_network'])
    }
    expect(await new TestBrowser(server.url, mails).askForCode(address)).toMatch(/^\d{4} \d{4}$/)
    clock.advance(HOUR_MS)
    expect((await ask(101)).status).toBe(200)
  })

  test('a code expires after ten minutes, and works only in the browser that asked', async () => {
    await openAccount()
    const browser = new TestBrowser(server.url, mails)
    const code = await browser.askForCode(address)
    expect(reasonOf(await new TestBrowser(server.url, mails).redeem(code))).toBe('code_ended')
    clock.advance(10 * MINUTE_MS)
    expect(reasonOf(await browser.redeem(code))).toBe('code_ended')
  })
})

test('promise 19: an unknown address gets the same answers as a known one, and no mail', async () => {
  await openAccount()
  const known = await new TestBrowser(server.url, mails).send('POST', CODE_PATH, { email: address })
  const unknown = await new TestBrowser(server.url, mails).send('POST', CODE_PATH, { email: 'nobody@example.test' })
  const plain = ({ status, text }: Answer) => [status, text]
  expect(plain(unknown)).toEqual(plain(known))
  await waitFor('the mail', () => mails.received.length > 0)
  const rows = await server.app.database.db
    .selectFrom('mail')
    .select(['to_address', 'state'])
    .where('to_address', 'in', [address, 'nobody@example.test'])
    .execute()
  expect(rows).toContainEqual({ to_address: 'nobody@example.test', state: 'withheld' })
  // Each has a code of its own in the database, so that tries with it take as long.
  const codes = await server.app.database.db
    .selectFrom('email_code')
    .select('address')
    .where('address', 'in', [address, 'nobody@example.test'])
    .execute()
  expect(codes).toHaveLength(2)
  expect(mails.received.map(({ to }) => to)).toEqual([[address]])
})

test('promise 10: a forged host changes no link of a mail', async () => {
  await openAccount()
  const forged = { Host: 'evil.example', 'X-Forwarded-Host': 'evil.example' }
  await new TestBrowser(server.url, mails).send('POST', CODE_PATH, { email: address }, forged)
  await waitFor('the mail', () => mails.received.length > 0)
  const [mail] = mails.received
  expect(mail?.raw).toContain(PUBLIC_URL)
  expect(mail?.raw).not.toContain('evil.example')
})

test('promise 12: the session token changes at sign-in, and a planted one is worthless', async () => {
  await openAccount()
  const browser = new TestBrowser(server.url, mails)
  const planted = 'A'.repeat(43)
  browser.cookies.set('berth_session', planted)
  await browser.redeem(await browser.askForCode(address))
  const first = browser.cookies.get('berth_session')
  expect(first).not.toBe(planted)
  await browser.redeem(await browser.askForCode(address))
  expect(browser.cookies.get('berth_session')).not.toBe(first)
  const old = await ask(server.url, '/v2/users/me', {
    headers: { ...consoleHeaders, Cookie: `berth_session=${first}` },
  })
  expect([old.status, reasonOf(old)]).toEqual([401, 'session_ended'])
})

test('promise 12: a code of the same person renews their session, which stays in its account', async () => {
  const accountIds = [await openAccount(), await openAccount()]
  const browser = new TestBrowser(server.url, mails)
  await browser.redeem(await browser.askForCode(address))
  for (const id of accountIds) await browser.send('POST', `/v2/people/me/offers/${id}/accept`)
  const before = JSON.parse((await browser.send('GET', '/v2/people/me')).text) as PersonPage
  expect(currentOf(before)).toBe(accountIds[1])
  clock.advance(16 * MINUTE_MS)
  await browser.redeem(await browser.askForCode(address))
  const after = JSON.parse((await browser.send('GET', '/v2/people/me')).text) as PersonPage
  expect([after.session.id, currentOf(after)]).toEqual([before.session.id, accountIds[1]])
  expect(Date.parse(after.session.authenticatedAt) - Date.parse(before.session.authenticatedAt)).toBe(16 * MINUTE_MS)
})

test('a new session acts in the account that the person used last', async () => {
  const accountIds = [await openAccount(), await openAccount()]
  const browser = new TestBrowser(server.url, mails)
  await browser.redeem(await browser.askForCode(address))
  for (const id of accountIds) await browser.send('POST', `/v2/people/me/offers/${id}/accept`)
  clock.advance(MINUTE_MS)
  await browser.send('GET', '/v2/users/me')
  const acting = async (): Promise<string | undefined> => {
    const another = new TestBrowser(server.url, mails)
    clock.advance(HOUR_MS)
    await another.redeem(await another.askForCode(address))
    return currentOf(JSON.parse((await another.send('GET', '/v2/people/me')).text) as PersonPage)
  }
  expect(await waitFor('the use to be written', async () => (await acting()) === accountIds[1])).toBe(true)
})

interface PersonPage {
  readonly session: { readonly id: string; readonly authenticatedAt: string }
  readonly accounts: ReadonlyArray<{ readonly accountId: string; readonly isCurrent: boolean }>
}

function currentOf({ accounts }: PersonPage): string | undefined {
  return accounts.find(({ isCurrent }) => isCurrent)?.accountId
}

test('promise 13: over HTTPS the cookie has the prefix of the host, and the session counts with it only', async () => {
  const behind = await testServer({ databaseUrl: server.databaseUrl, runLoops: false, env: { BERTH_TRUST_PROXY: '1' } })
  const https = {
    ...consoleHeaders,
    'X-Forwarded-Proto': 'https',
    'X-Forwarded-Host': 'cloud.example',
    'X-Forwarded-For': '10.0.0.9',
  }
  const answer = await ask(behind.url, '/console/session', {
    method: 'POST',
    headers: https,
    body: { key: server.demoKey },
  })
  const [set = ''] = answer.headers['set-cookie'] ?? []
  expect(set).toMatch(/^__Host-berth_session=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=\d+; Secure$/)
  const token = set.slice('__Host-berth_session='.length).split(';')[0]
  const me = (cookie: string) => ask(behind.url, '/v2/users/me', { headers: { ...https, Cookie: cookie } })
  expect((await me(`__Host-berth_session=${token}`)).status).toBe(200)
  // An application on a sibling host can set a cookie without the prefix.
  expect((await me(`berth_session=${token}`)).status).toBe(401)
  await behind.close()
})
