/** Notifications through the API and by e-mail, with a real mail server: who sees them, what is read, and how to stop. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DAY_MS, HOUR_MS, instantOf, MINUTE_MS, toDate } from '../../src/base/instant.ts'
import { watchEngines } from '../../src/reconcile/watch-engines.ts'
import { readDoneAt } from '../../src/store/lease.ts'
import { startJourney, succeed, type Journey } from '../harness/journey.ts'
import { headerOf, startMailServer, textOf, type MailServer, type ReceivedMail } from '../harness/mail-server.ts'
import type { Call } from '../harness/server.ts'

let journey: Journey
let mails: MailServer
beforeAll(async () => {
  mails = await startMailServer()
  journey = await startJourney({
    env: {
      BERTH_SMTP_URL: mails.url,
      BERTH_MAIL_FROM: 'Berth <berth@cloud.example>',
      BERTH_PUBLIC_URL: 'https://cloud.example/',
    },
  })
})
afterAll(async () => {
  await journey.close()
  await mails.close()
})

interface Shown {
  readonly id: string
  readonly kind: string
  readonly read: boolean
  readonly text: string
}

async function shownTo(call: Call, query = ''): Promise<{ notifications: Shown[]; unread: number }> {
  return succeed(call, 'GET', `/v2/notifications${query}`)
}

const kindsOf = ({ notifications }: { notifications: Shown[] }) => notifications.map(({ kind }) => kind)
const mailsTo = (address: string): ReceivedMail[] => mails.received.filter(({ to }) => to.includes(address))

async function emailOf(call: Call): Promise<string> {
  return (await succeed(call, 'GET', '/v2/users/me')).email
}

test('a low balance is a notification and an e-mail, once, and read state is each member’s own', async () => {
  const ada = await journey.account({ usd: '10', scopes: ['compute:read', 'compute:write', 'billing:read', 'keys'] })
  const { id } = await succeed(ada.call, 'POST', '/v2/members', { email: 'grace@example.test', role: 'member' })
  const { key } = await succeed(ada.call, 'POST', '/v2/api-keys', {
    name: 'grace',
    memberId: id,
    scopes: ['billing:read'],
  })
  const grace = journey.as(key)
  await journey.rentVirtualMachine(ada.call)
  await journey.advance(MINUTE_MS)
  await journey.pass()
  const seen = await shownTo(ada.call)
  expect([kindsOf(seen), seen.unread]).toEqual([['balance_low'], 1])
  expect(seen.notifications[0]?.text).toContain('within 6 hours')
  for (const address of [await emailOf(ada.call), 'grace@example.test']) {
    const [mail, ...others] = mailsTo(address)
    expect([mail === undefined ? '' : headerOf(mail, 'Subject'), others]).toEqual([
      expect.stringContaining('Balance low'),
      [],
    ])
    expect(mail === undefined ? '' : textOf(mail)).toContain('https://cloud.example')
  }
  const [{ id: newest } = { id: '0' }] = seen.notifications
  expect(await succeed(grace, 'POST', '/v2/notifications/read', { ids: [newest] })).toEqual({ unread: 0 })
  expect(kindsOf(await shownTo(grace, '?unread=true'))).toEqual([])
  expect((await shownTo(ada.call)).unread).toBe(1)
  expect(await succeed(ada.call, 'POST', '/v2/notifications/read', { upTo: '999999' })).toEqual({ unread: 0 })
  // What comes later is unread again.
  await journey.advance(3.5 * HOUR_MS)
  await journey.advance(HOUR_MS)
  const later = await shownTo(ada.call, '?unread=true')
  expect(new Set(kindsOf(later))).toEqual(new Set(['balance_low', 'balance_empty', 'rental_stopped']))
  expect(kindsOf(await shownTo((await journey.account()).call))).toEqual([])
})

test('an expiring term is announced 7, 2 and 1 days before its end, and no other time', async () => {
  const ada = await journey.account({ usd: '5000' })
  const order = { termType: 'reserved', termPeriodDays: 30, discountPercentage: 0 }
  await journey.rentVirtualMachine(ada.call, order)
  const told: number[] = []
  for (const days of [22, 1, 4, 1, 1]) {
    await journey.advance(days * DAY_MS)
    told.push((await shownTo(ada.call)).notifications.length)
  }
  expect(told).toEqual([0, 1, 1, 2, 3])
  expect(new Set(kindsOf(await shownTo(ada.call)))).toEqual(new Set(['term_expiring']))
})

describe('the link in an e-mail', () => {
  test('shows a page with a button, stops e-mail of its kind when posted, and refuses a forged token', async () => {
    const ada = await journey.account({ usd: '5' })
    const address = await emailOf(ada.call)
    await journey.rentVirtualMachine(ada.call)
    await journey.advance(MINUTE_MS)
    const [mail] = mailsTo(address)
    if (mail === undefined) throw new Error('no mail')
    const link = (headerOf(mail, 'List-Unsubscribe') ?? '').replace(
      /^<https:\/\/cloud\.example(.*)>$/,
      `${journey.url}$1`,
    )
    const emails = async () => {
      const { choices } = await succeed(ada.call, 'GET', '/v2/users/me/notifications')
      return choices.find(({ kind }: { kind: string }) => kind === 'balance_low').email
    }
    const opened = await fetch(link)
    expect([opened.status, opened.headers.get('content-security-policy')]).toEqual([
      200,
      expect.stringContaining("'none'"),
    ])
    expect(await opened.text()).toContain('<form method="post"')
    expect(await emails()).toBe(true)
    const form = { method: 'POST', body: new URLSearchParams({ 'List-Unsubscribe': 'One-Click' }) }
    expect((await fetch(link, form)).status).toBe(200)
    expect(await emails()).toBe(false)
    const forged = link.replace(/.{4}$/, 'AAAA')
    expect([(await fetch(forged)).status, (await fetch(forged, form)).status]).toEqual([404, 404])

    const sent = mailsTo(address).length
    await journey.advance(HOUR_MS + 5 * MINUTE_MS)
    await journey.pass()
    const subjects = mailsTo(address)
      .slice(sent)
      .map((one) => headerOf(one, 'Subject') ?? '')
    expect(subjects.filter((subject) => subject.includes('Balance low'))).toEqual([])
  })
})

describe('operators', () => {
  test('are told about an engine that no longer lists, once until it is back, and customers are not', async () => {
    const { database } = journey.app
    const before = kindsOf(await shownTo(journey.operator))
    const shownAt = await readDoneAt(database.db, 'observe:mock')
    expect(shownAt).not.toBeNull()
    const setShown = async (ms: number) =>
      database.db
        .updateTable('loop')
        .set({ done_at: toDate(instantOf(ms)) })
        .where('name', '=', 'observe:mock')
        .execute()
    const watch = () => watchEngines(journey.app).run(new AbortController().signal)
    await setShown(journey.clock.now() - 6 * MINUTE_MS)
    await watch()
    await watch()
    expect(kindsOf(await shownTo(journey.operator))).toEqual(['operator_engine', ...before])
    expect(kindsOf(await shownTo(journey.demo)).filter((kind) => kind.startsWith('operator'))).toEqual([])
    await setShown(journey.clock.now())
    await watch()
    await setShown(journey.clock.now() - 6 * MINUTE_MS)
    await watch()
    expect(kindsOf(await shownTo(journey.operator)).slice(0, 2)).toEqual(['operator_engine', 'operator_engine'])
    await setShown(journey.clock.now())
    await watch()
  })

  test('see the mail server, and what it answers to a test', async () => {
    const sent = await succeed(journey.operator, 'POST', '/v2/operator/mail/test', { address: 'ops@example.test' })
    expect(sent.reply).toContain('queued')
    expect(mailsTo('ops@example.test')).toHaveLength(1)
    const status = await succeed(journey.operator, 'GET', '/v2/operator/mail')
    expect(status).toMatchObject({ enabled: true, from: 'Berth <berth@cloud.example>', pending: 0, failed24h: 0 })
    mails.refuse = () => 550
    const refused = await journey.operator('POST', '/v2/operator/mail/test', { address: 'ops@example.test' })
    expect([refused.status, refused.body.reason]).toEqual([400, 'mail_refused'])
  })
})

test('a choice hides a kind from the console', async () => {
  const ada = await journey.account({ usd: '10' })
  await journey.rentVirtualMachine(ada.call)
  await journey.advance(MINUTE_MS)
  expect(kindsOf(await shownTo(ada.call))).toEqual(['balance_low'])
  const hide = { choices: [{ kind: 'balance_low', console: false }] }
  await succeed(ada.call, 'PATCH', '/v2/users/me/notifications', hide)
  expect(await shownTo(ada.call)).toMatchObject({ notifications: [], unread: 0 })
})
