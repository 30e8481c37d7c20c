/** Notifications through the API and by e-mail, with a real mail server: who sees them, what is read, and how to stop. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DAY_MS, HOUR_MS, instantOf, MINUTE_MS, toDate } from '../../src/base/instant.ts'
import type { Scope } from '../../src/contract/endpoint.ts'
import { watchDrivers } from '../../src/reconcile/watch-drivers.ts'
import { readDoneAt } from '../../src/store/platform/lease.ts'
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

const isConfirmation = (mail: ReceivedMail): boolean => (headerOf(mail, 'Subject') ?? '').includes('Confirm')
const isInvitation = (mail: ReceivedMail): boolean =>
  headerOf(mail, 'Subject') === '[Berth] Invitation to join an account'
const mailsAboutEvents = (address: string): ReceivedMail[] =>
  mailsTo(address).filter((mail) => !isConfirmation(mail) && !isInvitation(mail))

/** Asks for the confirmation message and posts to its link. */
async function confirmAddress(call: Call, address: string): Promise<void> {
  await succeed(call, 'POST', '/v2/users/me/notifications/confirm')
  const mail = mailsTo(address).findLast(isConfirmation)
  const [, at = ''] = /https:\/\/cloud\.example(\/confirm-email\S+)/.exec(mail === undefined ? '' : textOf(mail)) ?? []
  const opened = await fetch(`${journey.url}${at}`)
  expect([opened.status, await opened.text()]).toEqual([200, expect.stringContaining('<form method="post"')])
  expect((await succeed(call, 'GET', '/v2/users/me/notifications')).emailConfirmed).toBe(false)
  expect((await fetch(`${journey.url}${at}`, { method: 'POST' })).status).toBe(200)
  expect((await succeed(call, 'GET', '/v2/users/me/notifications')).emailConfirmed).toBe(true)
  const forged = await fetch(`${journey.url}${at.replace(/.{4}$/, 'AAAA')}`, { method: 'POST' })
  expect(forged.status).toBe(404)
}

describe('strangers who are added as members', () => {
  const scopes: Scope[] = ['compute:read', 'compute:write', 'billing:read', 'billing:write', 'keys']
  const add = (call: Call, email: string) => call('POST', '/v2/members', { email, role: 'viewer' })

  test('get no mail but an invitation, and subjects have no text of the customer (issue 31, 5)', async () => {
    const eve = await journey.account({ usd: '10', scopes })
    for (let n = 0; n < 60; n += 1) await add(eve.call, `stranger-${n}@example.test`)
    const label = 'You have won: call 555-0100'
    await succeed(eve.call, 'POST', '/v2/budgets', {
      name: label,
      scope: 'account',
      monthlyUsd: '0.01',
      alertsPercent: [50],
    })
    await journey.rentVirtualMachine(eve.call, { label })
    await journey.advance(HOUR_MS)
    await journey.pass()
    const kinds = kindsOf(await shownTo(eve.call))
    expect(kinds).toContain('budget')
    const own = mailsTo(await emailOf(eve.call))
    expect(own.length).toBeGreaterThan(0)
    for (const mail of own) expect(headerOf(mail, 'Subject')).not.toContain('You have won')
    const toStrangers = mails.received.filter(({ to }) => to.some((one) => one.startsWith('stranger-')))
    expect([toStrangers.length, toStrangers.filter((mail) => !isInvitation(mail))]).toEqual([50, []])
  })

  test('are asked with a fixed text, a few times a day (issue 31, 5)', async () => {
    const eve = await journey.account({ usd: '10', scopes })
    const keyFor = async (email: string): Promise<Call> => {
      const { id } = (await add(eve.call, email)).body
      const body = { name: 'k', memberId: id, scopes: ['compute:read'] }
      return journey.as((await succeed(eve.call, 'POST', '/v2/api-keys', body)).key)
    }
    const ask = (call: Call) => call('POST', '/v2/users/me/notifications/confirm')
    const first = await keyFor('asked@example.test')
    const statuses = [await ask(first), await ask(first), await ask(first), await ask(first)].map(
      ({ status }) => status,
    )
    expect(statuses).toEqual([200, 200, 200, 429])
    const texts = new Set(
      mailsTo('asked@example.test')
        .filter(isConfirmation)
        .map((mail) => textOf(mail).replaceAll(/token=\S+/g, '')),
    )
    expect(texts.size).toBe(1)
    expect([...texts][0]).not.toContain(eve.id)
    const outcomes: number[] = []
    for (let n = 0; n < 20; n += 1) outcomes.push((await ask(await keyFor(`asked-${n}@example.test`))).status)
    expect(outcomes.filter((status) => status === 200)).toHaveLength(17)
    await journey.advance(DAY_MS + MINUTE_MS)
    expect((await ask(first)).status).toBe(200)
  })

  test('are at most 100 (issue 31, 5)', async () => {
    const eve = await journey.account({ scopes })
    const added: number[] = []
    const addMembers = async (from: number, to: number): Promise<void> => {
      for (let n = from; n < to; n += 1) added.push((await add(eve.call, `member-${n}@example.test`)).status)
    }
    await addMembers(0, 51)
    await journey.advance(DAY_MS + MINUTE_MS)
    await addMembers(51, 101)
    expect(added.filter((status) => status === 200)).toHaveLength(99)
    expect(await add(eve.call, 'last@example.test')).toMatchObject({ body: { reason: 'quota_exceeded' } })
  })
})

test('a low balance is a notification and an e-mail, once, and read state is each member’s own', async () => {
  const ada = await journey.account({ usd: '10', scopes: ['compute:read', 'compute:write', 'billing:read', 'keys'] })
  const { id } = await succeed(ada.call, 'POST', '/v2/members', { email: 'grace@example.test', role: 'member' })
  const { key } = await succeed(ada.call, 'POST', '/v2/api-keys', {
    name: 'grace',
    memberId: id,
    scopes: ['billing:read'],
  })
  const grace = journey.as(key)
  await confirmAddress(grace, 'grace@example.test')
  await journey.rentVirtualMachine(ada.call)
  await journey.advance(MINUTE_MS)
  await journey.pass()
  const seen = await shownTo(ada.call)
  expect([kindsOf(seen), seen.unread]).toEqual([['balance_low'], 1])
  expect(seen.notifications[0]?.text).toContain('within 6 hours')
  for (const address of [await emailOf(ada.call), 'grace@example.test']) {
    const [mail, ...others] = mailsAboutEvents(address)
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
    const watch = () => watchDrivers(journey.app).run(new AbortController().signal)
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
