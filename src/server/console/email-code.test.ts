/** Sign-in with a code by email, as a browser and a mailbox see it. Promises 10, 12, 13, 18 and 19 of sign-in. */
import pg from 'pg'
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
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

test('promise 19: the work behind the answer is the same for known, invited, disabled and unknown addresses', async () => {
  // Its own server without loops, so that all statements are of the request.
  const quiet = await testServer({
    clock,
    runLoops: false,
    env: { BERTH_PUBLIC_URL: PUBLIC_URL, BERTH_SMTP_URL: mails.url, BERTH_MAIL_FROM: 'berth@cloud.example' },
  })
  const { database } = new pg.Client(quiet.databaseUrl)
  const query = vi.spyOn(pg.Client.prototype, 'query')
  const addresses = ['known', 'invited', 'disabled', 'unknown'].map((name) => `${name}@example.test`)
  const [known, invited, disabled] = addresses
  try {
    for (const ownerEmail of [known, disabled])
      await quiet.operator('POST', '/v2/operator/accounts', { name: 'Lab', ownerEmail })
    await quiet.operator('POST', '/v2/operator/invitations', { email: invited })
    const { people: listed } = (await quiet.operator('GET', `/v2/operator/people?q=${disabled}`)).body
    const [{ id }] = listed as [{ id: string }]
    await quiet.operator('PATCH', `/v2/operator/people/${id}`, { disabled: true, reason: 'left' })
    const work: string[][] = []
    for (const email of addresses) {
      query.mockClear()
      const answer = await new TestBrowser(quiet.url, mails).send('POST', CODE_PATH, { email })
      expect([answer.status, answer.text]).toEqual([200, '{}'])
      const calls = query.mock.contexts.map((client, n) => ({
        client: client as pg.Client,
        text: textOfQuery(query.mock.calls[n]?.[0]),
      }))
      // Wake-ups follow an answer, and empty statements ask whether a connection still answers.
      const isOfAnswer = (text: string) => text !== '' && !text.includes('pg_notify')
      const statements = calls.filter(({ client, text }) => client.database === database && isOfAnswer(text))
      work.push(statements.map(({ text }) => text))
    }
    expect(work[0]?.filter((text) => text.includes('email_code')).length).toBeGreaterThan(2)
    for (const one of work) expect(one).toEqual(work[0])
  } finally {
    query.mockRestore()
    await quiet.close()
  }
})

function textOfQuery(query: unknown): string {
  return typeof query === 'string' ? query : String((query as { text?: unknown } | undefined)?.text)
}

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

test('promise 59: codes and tokens are in no log and in no row', async () => {
  const lines: string[] = []
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) })
  const logged = await testServer({
    clock,
    log,
    env: {
      BERTH_PUBLIC_URL: PUBLIC_URL,
      BERTH_SMTP_URL: mails.url,
      BERTH_MAIL_FROM: 'berth@cloud.example',
      BERTH_SIGN_UP: 'open',
    },
  })
  const browser = new TestBrowser(logged.url, mails)
  const code = await browser.askForCode(address)
  const { db } = logged.app.database
  const read = async () => [
    ...(await db.selectFrom('email_code').selectAll().execute()),
    ...(await db.selectFrom('mail').selectAll().execute()),
    ...(await db.selectFrom('console_session').selectAll().execute()),
  ]
  const rows = await read()
  await browser.redeem('1111 1111')
  expect((await browser.redeem(code)).status).toBe(200)
  const { device_code: deviceCode, user_code: userCode } = (
    await logged.anonymous('POST', '/v2/device/code', { host_name: 'laptop' })
  ).body as Record<string, string>
  rows.push(...(await read()))
  const devices = await db.selectFrom('device_login').selectAll().execute()
  const text = JSON.stringify([rows, devices]) + lines.join('')
  expect(lines.some((line) => line.includes(CODE_PATH))).toBe(true)
  const secrets = [code, code.replace(' ', ''), deviceCode, userCode, ...browser.cookies.values()]
  for (const secret of secrets) expect(text).not.toContain(secret)
  await logged.close()
})

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
