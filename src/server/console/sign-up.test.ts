/** Sign-up that is open to everybody: what a self-opened account gets, and what it needs before it can order. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startMailServer, type MailServer } from '../../../test/harness/mail-server.ts'
import { reasonOf, TestBrowser } from '../../../test/harness/people.ts'
import { testServer, type TestServer } from '../../../test/harness/server.ts'
import { signUpQuota } from '../../base/limits.ts'

let mails: MailServer
let server: TestServer
beforeAll(async () => {
  mails = await startMailServer()
  server = await testServer({
    env: {
      BERTH_PUBLIC_URL: 'https://cloud.example',
      BERTH_SMTP_URL: mails.url,
      BERTH_MAIL_FROM: 'berth@cloud.example',
      BERTH_SIGN_UP: 'open',
    },
  })
})
afterAll(async () => {
  await server.close()
  await mails.close()
})

test('an account comes with a proved address, and orders no more than its small quota', async () => {
  const email = 'new@example.test'
  const browser = new TestBrowser(server.url, mails)
  const code = await browser.askForCode(email)
  const people = () => server.app.database.db.selectFrom('person').selectAll().where('email', '=', email).execute()
  // Asking for a code opens nothing.
  expect(await people()).toEqual([])
  expect((await browser.redeem(code)).status).toBe(200)
  const [person] = await people()
  expect(person?.email_verified_at).not.toBeNull()
  const me = JSON.parse((await browser.send('GET', '/v2/users/me')).text) as { role: string; account: { id: string } }
  expect(me.role).toBe('owner')
  const row = await server.app.database.db
    .selectFrom('account')
    .select('quota')
    .where('id', '=', me.account.id)
    .executeTakeFirstOrThrow()
  expect(row.quota).toEqual(signUpQuota)
  await server.operator('POST', `/v2/operator/accounts/${me.account.id}/credit`, { amountUsd: '10000', reason: 'test' })
  const many = { networkType: 'infiniband', gpuCount: 16 }
  const refused = await browser.send('POST', '/v2/alpha/on-demand/bare-metal-rentals', many)
  expect(reasonOf(refused)).toBe('quota_exceeded')
})

test('whom the operator invites gets the usual quota', async () => {
  const email = 'invited@example.test'
  await server.operator('POST', '/v2/operator/invitations', { email })
  const browser = new TestBrowser(server.url, mails)
  await browser.signIn(email)
  const page = JSON.parse((await browser.send('GET', '/v2/people/me')).text) as { offers: Array<{ id: string }> }
  expect((await browser.send('POST', `/v2/people/me/offers/${page.offers[0]?.id}/accept`)).status).toBe(200)
  const me = JSON.parse((await browser.send('GET', '/v2/users/me')).text) as { account: { id: string } }
  const row = await server.app.database.db
    .selectFrom('account')
    .select('quota')
    .where('id', '=', me.account.id)
    .executeTakeFirstOrThrow()
  expect(row.quota).toEqual({})
})
