/** Sessions on two servers over one database. Promise 14 of sign-in. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startMailServer, type MailServer } from '../../../test/harness/mail-server.ts'
import { reasonOf, TestBrowser } from '../../../test/harness/people.ts'
import { testServer, type TestServer } from '../../../test/harness/server.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { ask } from '../../../test/harness/console.ts'
import { SECOND_MS } from '../../base/instant.ts'
import { SESSION_PATH } from '../../contract/session.ts'

let mails: MailServer
let first: TestServer
let second: TestServer
let people = 0
beforeAll(async () => {
  mails = await startMailServer()
  const env = {
    BERTH_PUBLIC_URL: 'https://cloud.example',
    BERTH_SMTP_URL: mails.url,
    BERTH_MAIL_FROM: 'a@cloud.example',
  }
  first = await testServer({ env })
  second = await testServer({ databaseUrl: first.databaseUrl, runLoops: false, env })
})
afterAll(async () => {
  await second.close()
  await first.close()
  await mails.close()
})

async function signUp() {
  people += 1
  const email = `two-${people}@example.test`
  const opened = await first.operator('POST', '/v2/operator/accounts', { name: email, ownerEmail: email })
  const accountId = (opened.body.account as { id: string }).id
  const browser = new TestBrowser(first.url, mails)
  await browser.signIn(email)
  await browser.send('POST', `/v2/people/me/offers/${accountId}/accept`)
  return { browser, email, accountId, owner: first.as(opened.body.key as string) }
}

const onSecond = (browser: TestBrowser, path = '/v2/users/me') => ask(second.url, path, { headers: browser.headers() })

/** How long until the second server refuses the session that it has just accepted. */
async function timeToRefusal(browser: TestBrowser, end: () => Promise<unknown>, reason: string): Promise<number> {
  expect((await onSecond(browser)).status).toBe(200)
  const headers = browser.headers()
  await end()
  const began = performance.now()
  const me = () => ask(second.url, '/v2/users/me', { headers })
  await waitFor('the refusal', async () => reasonOf(await me()) === reason)
  return performance.now() - began
}

test('promise 14: sign-out on one server ends the session on the other within a second', async () => {
  const { browser } = await signUp()
  const ms = await timeToRefusal(browser, () => browser.send('DELETE', SESSION_PATH), 'session_ended')
  expect(ms).toBeLessThan(SECOND_MS)
})

test('promise 14: so does the end of a session in the list, and of all others', async () => {
  const { browser, email } = await signUp()
  const other = new TestBrowser(first.url, mails)
  await other.signIn(email)
  const ms = await timeToRefusal(other, () => browser.send('DELETE', '/v2/people/me/sessions'), 'session_ended')
  expect(ms).toBeLessThan(SECOND_MS)
  expect((await onSecond(browser)).status).toBe(200)
})

test('promise 14: the removal of a member ends their access through the session', async () => {
  const { owner, accountId } = await signUp()
  const email = `removed-${people}@example.test`
  await owner('POST', '/v2/members', { email, role: 'member' })
  const member = new TestBrowser(first.url, mails)
  await member.signIn(email)
  const { offers, id } = JSON.parse((await member.send('GET', '/v2/people/me')).text) as {
    id: string
    offers: Array<{ id: string; accountId: string }>
  }
  const offer = offers.find((one) => one.accountId === accountId)
  expect((await member.send('POST', `/v2/people/me/offers/${offer?.id}/accept`)).status).toBe(200)
  const ms = await timeToRefusal(member, () => owner('DELETE', `/v2/members/${id}`), 'no_account')
  expect(ms).toBeLessThan(SECOND_MS)
})

test('promise 14: the end of a session ends its event streams on the other server within 15 seconds', async () => {
  const { browser } = await signUp()
  const stream = await fetch(`${second.url}/v2/events/stream`, { headers: browser.headers() })
  expect(stream.status).toBe(200)
  const reader = stream.body?.getReader()
  const began = performance.now()
  await browser.send('DELETE', SESSION_PATH)
  for (;;) {
    const read = await reader?.read()
    if (read === undefined || read.done) break
  }
  expect(performance.now() - began).toBeLessThan(16 * SECOND_MS)
}, 30_000)
