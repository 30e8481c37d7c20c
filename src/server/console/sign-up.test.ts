/** Sign-up that is open to everybody: what a self-opened account gets, and what it needs before it can order. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startMailServer, type MailServer } from '../../../test/harness/mail-server.ts'
import { reasonOf, TestBrowser } from '../../../test/harness/people.ts'
import { testServer, type TestServer } from '../../../test/harness/server.ts'
import { DAY_MS, HOUR_MS } from '../../base/instant.ts'
import { signUpQuota } from '../../base/limits.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import { sweepExpired } from '../../reconcile/expire.ts'

const clock = manualClock()
let mails: MailServer
let server: TestServer
beforeAll(async () => {
  mails = await startMailServer()
  server = await testServer({
    clock,
    env: {
      BERTH_PUBLIC_URL: 'https://cloud.example',
      BERTH_SMTP_URL: mails.url,
      BERTH_MAIL_FROM: 'berth@cloud.example',
      BERTH_SIGN_UP: 'open',
      BERTH_TRUST_PROXY: '1',
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

describe('accounts that people of one network open by themselves', () => {
  let people = 0
  /** Returns why no account was opened. */
  async function signUp(ipAddress: string): Promise<string | undefined> {
    people += 1
    return redeemFrom(ipAddress, `farm-${people}@example.test`)
  }

  async function redeemFrom(ipAddress: string, email: string): Promise<string | undefined> {
    const browser = new TestBrowser(server.url, mails)
    browser.address = ipAddress
    const answer = await browser.redeem(await browser.askForCode(email))
    return answer.status === 200 ? undefined : reasonOf(answer)
  }

  const findPeople = (email: string) =>
    server.app.database.db.selectFrom('person').select('id').where('email', '=', email).execute()

  test('are five in an hour and twenty in a day', async () => {
    const reasons: Array<string | undefined> = []
    for (let hour = 0; hour < 5; hour += 1) {
      for (let n = 0; n < 6; n += 1) reasons.push(await signUp('203.0.113.7'))
      clock.advance(HOUR_MS)
    }
    const fullHour = [...Array.from({ length: 5 }, () => undefined), 'too_many_accounts']
    const full = Array.from({ length: 6 }, () => 'too_many_accounts')
    expect(reasons).toEqual([...fullHour, ...fullHour, ...fullHour, ...fullHour, ...full])
    // A refused person does not exist, and another network is not concerned.
    expect(await findPeople(`farm-${people}@example.test`)).toEqual([])
    expect(await signUp('203.0.113.8')).toBeUndefined()
    clock.advance(DAY_MS)
    expect(await signUp('203.0.113.7')).toBeUndefined()
  })

  test('are five in an hour also at once, and from all IPv6 addresses of one client', async () => {
    const reasons = await Promise.all(Array.from({ length: 8 }, (_, n) => signUp(`2001:db8:5:6::${n}`)))
    expect(reasons.filter((reason) => reason === undefined)).toHaveLength(5)
    expect(await signUp('2001:db8:5:6:ffff::1')).toBe('too_many_accounts')
    expect(await signUp('2001:db8:5:7::1')).toBeUndefined()
  })

  test('do not count who is invited or known', async () => {
    for (let n = 0; n < 5; n += 1) await signUp('203.0.113.9')
    expect(await signUp('203.0.113.9')).toBe('too_many_accounts')
    const email = 'colleague@example.test'
    await server.operator('POST', '/v2/operator/invitations', { email })
    expect(await redeemFrom('203.0.113.9', email)).toBeUndefined()
    expect(await redeemFrom('203.0.113.9', email)).toBeUndefined()
  })

  test('are forgotten after a day', async () => {
    const { db } = server.app.database
    await signUp('203.0.113.10')
    const count = async () => (await db.selectFrom('self_opened_account').select('network').execute()).length
    clock.advance(DAY_MS - HOUR_MS)
    await signUp('203.0.113.11')
    clock.advance(HOUR_MS)
    await sweepExpired(server.app).run(new AbortController().signal)
    expect(await count()).toBe(1)
  })
})
