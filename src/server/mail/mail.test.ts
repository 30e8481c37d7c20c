/** From a notification to an e-mail on a real SMTP server: choice, gathering, retries, outages, unsubscribing. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { addMs, DAY_MS, HOUR_MS, MINUTE_MS, toDate } from '../../base/instant.ts'
import { usd } from '../../base/money.ts'
import type { Actor, App } from '../../app/app.ts'
import { changeChoices } from '../../app/account/notification.ts'
import { openUnsubscribe } from '../../app/account/unsubscribe.ts'
import { queueMail } from '../../reconcile/queue-mail.ts'
import { sendMail } from '../../reconcile/send-mail.ts'
import { transact } from '../../store/platform/database.ts'
import { recordEvent } from '../../store/notice/event.ts'
import { notifyOperators } from '../../store/notice/notification.ts'
import { openAccount, openTestLedger, type TestLedger } from '../../../test/harness/ledger.ts'
import { headerOf, startMailServer, textOf, type MailServer } from '../../../test/harness/mail-server.ts'
import { openMailer } from './mailer.ts'

const FROM = 'Berth <berth@cloud.example>'
let ledger: TestLedger
let server: MailServer
let app: App
beforeAll(async () => {
  ledger = await openTestLedger()
})
afterAll(() => ledger.close())
beforeEach(async ({ onTestFinished }) => {
  server = await startMailServer()
  const mailer = openMailer({ url: server.url, from: FROM }, () => 'https://cloud.example')
  app = { ...ledger.app, mailer }
  onTestFinished(async () => {
    mailer.close()
    await server.close()
  })
})

const signal = new AbortController().signal
/** Queues and sends until nothing is due. */
async function pass(): Promise<void> {
  await queueMail(app).run(signal)
  while (await sendMail(app).run(signal));
}

async function openMember(name: string): Promise<Actor> {
  const actor = await openAccount(ledger, name)
  const row = { account_id: actor.accountId, person_id: actor.personId, role: 'owner' as const }
  const now = toDate(ledger.clock.now())
  await ledger.database.db
    .insertInto('member')
    .values({ ...row, mail_confirmed_at: now, created_at: now })
    .execute()
  // Only customers here: operators get every operator's mail.
  const customer: Actor = { ...actor, scopes: ['billing:read'] }
  await ledger.database.db
    .updateTable('api_key')
    .set({ scopes: ['billing:read'] })
    .where('public_id', '=', actor.keyId)
    .execute()
  return customer
}

async function fail({ accountId }: Actor, name = 'brave-teal-otter', label: string | null = null): Promise<void> {
  await transact(ledger.database, async (tx) =>
    recordEvent(tx, {
      accountId,
      type: 'rental.failed',
      subject: { kind: 'rental', id: '17' },
      data: { rentalId: 17, name, label, reason: 'machine_lost' },
    }),
  )
}

const mailsOf = ({ accountId }: Actor) =>
  ledger.database.db
    .selectFrom('mail')
    .select(['state', 'attempts', 'last_error', 'due_at'])
    .where('account_id', '=', accountId)
    .orderBy('created_at')
    .execute()

test('a failed rental reaches every member who wants it, once', async () => {
  const actor = await openMember('told')
  await fail(actor)
  await pass()
  await pass()
  expect(server.received).toHaveLength(1)
  const [mail] = server.received
  if (mail === undefined) throw new Error('no mail')
  expect([mail.from, mail.to]).toEqual(['berth@cloud.example', ['told@example.com']])
  expect(headerOf(mail, 'Subject')).toBe('[Berth] Rental failed (told Ltd)')
  expect(textOf(mail)).toContain('brave-teal-otter failed')
  expect(headerOf(mail, 'Auto-Submitted')).toBe('auto-generated')
  expect(headerOf(mail, 'Message-ID')).toMatch(/^<mail_\w+@cloud\.example>$/)
  expect(textOf(mail)).toContain('lost the machine')
  expect(await mailsOf(actor)).toMatchObject([{ state: 'sent', attempts: 1, last_error: null }])
})

test('what a customer wrote is escaped in HTML and never starts a header', async () => {
  const actor = await openMember('escaped')
  await fail(actor, 'otter', '<b>x</b>\r\nBcc: someone@else.example')
  await pass()
  const [mail] = server.received
  if (mail === undefined) throw new Error('no mail')
  expect(mail.to).toEqual(['escaped@example.com'])
  expect(headerOf(mail, 'Bcc')).toBeUndefined()
  expect(textOf(mail)).toContain('Rental <b>x</b> Bcc: someone@else.example failed\r\n')
  const html = mail.raw.slice(mail.raw.indexOf('text/html')).replaceAll('=\r\n', '')
  expect(html).not.toContain('<b>x')
  expect(html).toContain('&#60;b&#62;')
})

test('a burst is two messages: the first at once, the rest after five minutes', async () => {
  const actor = await openMember('burst')
  await fail(actor, 'first')
  await pass()
  for (let n = 0; n < 30; n += 1) await fail(actor, `later-${n}`)
  await pass()
  expect(server.received).toHaveLength(1)
  ledger.clock.advance(5 * MINUTE_MS + 1)
  await pass()
  expect(server.received).toHaveLength(2)
  const [, digest] = server.received
  if (digest === undefined) throw new Error('no mail')
  expect(headerOf(digest, 'Subject')).toContain('30 notifications')
  expect(textOf(digest)).toContain('And 10 more.')
})

test('a member who turned a kind off gets no e-mail of it, and others do', async () => {
  const actor = await openMember('quiet')
  await transact(ledger.database, (tx) => changeChoices(tx, actor, [{ kind: 'rental_failed', email: false }]))
  await fail(actor)
  await transact(ledger.database, async (tx) =>
    recordEvent(tx, {
      accountId: actor.accountId,
      type: 'balance.runway_low',
      subject: { kind: 'balance', id: actor.accountId },
      data: { hours: 6, balanceUsd: '12.000000000', hourlySpendUsd: '2.000000000' },
    }),
  )
  await pass()
  expect(server.received.map((mail) => headerOf(mail, 'Subject'))).toEqual([expect.stringContaining('Balance low')])
})

describe('the mail server', () => {
  test('is down: nothing is lost, and no attempt counts', async () => {
    const actor = await openMember('outage')
    const port = Number(new URL(server.url).port)
    await server.close()
    await fail(actor)
    for (let n = 0; n < 20; n += 1) {
      await pass()
      ledger.clock.advance(HOUR_MS)
    }
    expect(await mailsOf(actor)).toMatchObject([
      { state: 'pending', attempts: 0, last_error: expect.stringMatching(/./) },
    ])
    server = await startMailServer(port)
    await pass()
    expect(server.received).toHaveLength(1)
    expect(await mailsOf(actor)).toMatchObject([{ state: 'sent', attempts: 1 }])
  })

  test('refuses a recipient for good (5xx): the message fails at once, others are sent', async () => {
    const actor = await openMember('gone')
    const fine = await openMember('fine')
    server.refuse = (address) => (address.startsWith('gone@') ? 550 : undefined)
    await fail(actor)
    await fail(fine)
    await pass()
    expect(await mailsOf(actor)).toMatchObject([
      { state: 'failed', attempts: 1, last_error: expect.stringContaining('550') },
    ])
    expect(server.received.map(({ to }) => to)).toEqual([['fine@example.com']])
  })

  test('refuses a recipient for now (4xx): it is tried again later, and given up in the end', async () => {
    const actor = await openMember('later')
    server.refuse = () => 450
    await fail(actor)
    await pass()
    const [first] = await mailsOf(actor)
    expect(first).toMatchObject({ state: 'pending', attempts: 1, due_at: addMs(ledger.clock.now(), MINUTE_MS) })
    server.refuse = () => undefined
    await pass()
    expect(server.received).toEqual([])
    ledger.clock.advance(MINUTE_MS)
    await pass()
    expect(server.received).toHaveLength(1)

    const never = await openMember('never')
    server.refuse = () => 450
    await fail(never)
    for (let n = 0; n < 12; n += 1) {
      await pass()
      ledger.clock.advance(4 * HOUR_MS)
    }
    expect(await mailsOf(never)).toMatchObject([{ state: 'failed', attempts: 10 }])
  })

  test('was configured after the fact: old notifications are not sent', async () => {
    const actor = await openMember('old')
    await fail(actor)
    ledger.clock.advance(DAY_MS + 1)
    await pass()
    expect([server.received, await mailsOf(actor)]).toEqual([[], []])
    await fail(actor)
    await queueMail(ledger.app).run(signal)
    await pass()
    expect(server.received).toEqual([])
  })

  test('answers the test e-mail with its own reply, or with why not', async () => {
    expect(await app.mailer?.sendTest('ops@example.com')).toMatchObject({
      kind: 'sent',
      reply: expect.stringContaining('queued'),
    })
    server.refuse = () => 550
    expect(await app.mailer?.sendTest('ops@example.com')).toMatchObject({ kind: 'refused' })
  })
})

test('operators get theirs, and customers do not', async () => {
  const { accountId, personId } = await openAccount(ledger, 'operator', usd('1'))
  const member = { account_id: accountId, person_id: personId, role: 'owner' as const }
  const now = toDate(ledger.clock.now())
  await ledger.database.db
    .insertInto('member')
    .values({ ...member, mail_confirmed_at: now, created_at: now })
    .execute()
  await transact(ledger.database, (tx) =>
    notifyOperators(tx, { kind: 'operator_ledger', subject: { kind: 'ledger', id: 'daily' }, data: { findings: 2 } }),
  )
  await pass()
  expect(server.received.map(({ to }) => to)).toEqual([['operator@example.com']])
})

test('each message has a one-click link that names its reader and kind', async () => {
  const actor = await openMember('leaving')
  await fail(actor)
  await pass()
  const [mail] = server.received
  if (mail === undefined) throw new Error('no mail')
  expect(headerOf(mail, 'List-Unsubscribe-Post')).toBe('List-Unsubscribe=One-Click')
  const [, token = ''] =
    /^<https:\/\/cloud\.example\/unsubscribe\?token=([^>]+)>$/.exec(headerOf(mail, 'List-Unsubscribe') ?? '') ?? []
  const { accountId, personId } = actor
  expect(openUnsubscribe(app.vault, decodeURIComponent(token))).toEqual({ accountId, personId, kind: 'rental_failed' })
  expect(openUnsubscribe(app.vault, `${token.slice(0, -2)}AA`)).toBeUndefined()
})
