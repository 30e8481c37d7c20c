/** Suppliers are paid: past the holdback, once, to details that everybody knows about, and "paid" only when somebody said so. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DAY_MS, HOUR_MS, MINUTE_MS, toDate } from '../src/base/instant.ts'
import { usd } from '../src/base/money.ts'
import { draftPayoutRuns } from '../src/reconcile/payout-runs.ts'
import { readBalances } from '../src/store/ledger/ledger.ts'
import { ask } from './harness/console.ts'
import type { Reply } from './harness/exchange.ts'
import { startMailServer, type MailServer } from './harness/mail-server.ts'
import { startPaying, type Paying } from './harness/paying.ts'
import {
  bank,
  done,
  earn,
  IBAN,
  openSupplier,
  payOut,
  setUpBank,
  setUpStripe,
  type Supplier,
} from './harness/payout.ts'
import { personHeaders } from './harness/people.ts'

const PATH = '/v2/operator/payouts'
const HOLDBACK_MS = 14 * DAY_MS

let paying: Paying
let mails: MailServer
beforeAll(async () => {
  mails = await startMailServer()
  paying = await startPaying({ env: { BERTH_SMTP_URL: mails.url, BERTH_MAIL_FROM: 'berth@example.com' } })
})
afterAll(async () => {
  await paying.close()
  await mails.close()
})

const earningsOf = async ({ id }: Supplier) => (await readBalances(paying.app.database.db, id)).earnings
const payoutsOf = async ({ call }: Supplier) => done(call('GET', '/v2/supply/payouts'))
const reasonOf = async (reply: Promise<Reply>): Promise<string> => (await reply).body.reason

/** A supplier whose earnings are past the holdback, and whose details are old enough. */
async function ready(amountUsd: string, to: 'bank' | 'stripe' = 'bank'): Promise<Supplier> {
  const supplier = await openSupplier(paying)
  await earn(paying, supplier.id, amountUsd)
  if (to === 'bank') await setUpBank(supplier)
  else await setUpStripe(paying, supplier)
  paying.clock.advance(HOLDBACK_MS + MINUTE_MS)
  return supplier
}

async function settleAll(): Promise<void> {
  for (let n = 0; n < 3; n += 1) {
    paying.clock.advance(HOUR_MS)
    await paying.deliver()
    await paying.settle()
  }
}

describe('promise 60: only earnings past the holdback are paid', () => {
  test('rounded down to cents, and from $50 on', async () => {
    const supplier = await openSupplier(paying)
    const small = await openSupplier(paying)
    await setUpBank(supplier)
    await setUpBank(small)
    await earn(paying, supplier.id, '60.129999999')
    await earn(paying, small.id, '49.999999999')
    paying.clock.advance(HOLDBACK_MS - 2 * HOUR_MS)
    expect(await reasonOf(paying.operator('POST', PATH))).toBe('nothing_to_pay_out')
    paying.clock.advance(2 * HOUR_MS)
    await earn(paying, supplier.id, '40')
    expect(await payoutsOf(supplier)).toMatchObject({
      unpaidUsd: '100.129999999',
      payableUsd: '60.120000000',
      maturingUsd: '40.000000000',
      blockedBy: null,
    })
    expect(await payoutsOf(small)).toMatchObject({ payableUsd: '49.990000000', blockedBy: 'below_minimum' })
    const run = await done(paying.operator('POST', PATH))
    expect(run).toMatchObject({ state: 'draft', amountUsd: '60.120000000', payoutsTotal: 1 })
    expect(await earningsOf(supplier)).toBe(usd('100.129999999'))
    const approved = await done(paying.operator('POST', `${PATH}/${run.id}/approve`))
    expect(approved.payouts).toMatchObject([{ accountId: supplier.id, state: 'approved', amountUsd: '60.120000000' }])
    expect(await earningsOf(supplier)).toBe(usd('40.009999999'))
    expect(await paying.findings()).toEqual([])
  })

  test('a repeated run, and several at once, pay nobody twice', async () => {
    const supplier = await ready('75')
    const drafts = await Promise.all([1, 2, 3].map(() => paying.operator('POST', PATH)))
    expect(drafts.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 400, 400])
    const id = String(drafts.find(({ status }) => status === 200)?.body.id)
    const approvals = await Promise.all([1, 2, 3].map(() => paying.operator('POST', `${PATH}/${id}/approve`)))
    expect(approvals.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(approvals.filter(({ body }) => body.reason === 'payout_run_not_draft')).toHaveLength(2)
    expect(await reasonOf(paying.operator('POST', PATH))).toBe('nothing_to_pay_out')
    expect(await earningsOf(supplier)).toBe(usd('0'))
    expect((await payoutsOf(supplier)).payouts).toHaveLength(1)
    expect(await paying.findings()).toEqual([])
  })

  test('what an operator paid out or took back meanwhile is not paid again', async () => {
    const supplier = await ready('80')
    const { id } = await done(paying.operator('POST', PATH))
    const order = { amountUsd: '30', reason: 'bank transfer' }
    await done(paying.operator('POST', `/v2/operator/accounts/${supplier.id}/payout`, order))
    const run = await done(paying.operator('POST', `${PATH}/${id}/approve`))
    expect(run).toMatchObject({ state: 'canceled', payouts: [{ state: 'canceled', failure: 'earnings_changed' }] })
    expect(await earningsOf(supplier)).toBe(usd('50'))
    await done(paying.operator('POST', `/v2/operator/accounts/${supplier.id}/payout`, { ...order, amountUsd: '50' }))
    expect(await paying.findings()).toEqual([])
  })

  test('a canceled draft leaves the earnings to the next', async () => {
    const supplier = await ready('70')
    const { id } = await done(paying.operator('POST', PATH))
    expect(await reasonOf(paying.operator('POST', PATH))).toBe('payout_draft_open')
    expect(await done(paying.operator('POST', `${PATH}/${id}/cancel`))).toMatchObject({ state: 'canceled' })
    expect(await reasonOf(paying.operator('POST', `${PATH}/${id}/approve`))).toBe('payout_run_not_draft')
    await payOut(paying)
    expect(await earningsOf(supplier)).toBe(usd('0'))
  })

  test('the schedule drafts one run on its day, on all servers together, and tells the operators', async () => {
    const loop = draftPayoutRuns(paying.app)
    const { signal } = new AbortController()
    await loop.run(signal)
    const supplier = await ready('90')
    await Promise.all([1, 2, 3].map(() => loop.run(signal)))
    const { runs, nextRunAt } = await done(paying.operator('GET', PATH))
    const drafts = runs.filter((run: { state: string }) => run.state === 'draft')
    expect(drafts).toMatchObject([{ scheduled: true, amountUsd: '90.000000000' }])
    expect(new Date(nextRunAt).getUTCDay()).toBe(1)
    expect(await paying.alerts()).toContain(`payout ${drafts[0].id}`)
    await done(paying.operator('POST', `${PATH}/${drafts[0].id}/approve`))
    await loop.run(signal)
    expect((await done(paying.operator('GET', PATH))).runs).toHaveLength(runs.length)
    expect(await earningsOf(supplier)).toBe(usd('0'))
  })
})

describe('promise 61: changed details', () => {
  test('wait for 72 hours and are told to every owner', async () => {
    const supplier = await ready('100')
    const { db } = paying.app.database
    await done(supplier.call('POST', '/v2/members', { email: 'second-owner@example.test', role: 'owner' }))
    await done(supplier.call('POST', '/v2/members', { email: 'member@example.test', role: 'member' }))
    const before = await db.selectFrom('mail').select('id').execute()
    await setUpBank(supplier, { holder: 'Mallory', accountNumber: '000123456789', routingNumber: '110000000' })
    const sent = await db
      .selectFrom('mail')
      .select(['to_address', 'template'])
      .where('id', 'not in', [...before.map(({ id }) => id), ''])
      .execute()
    const owners = await db
      .selectFrom('member')
      .innerJoin('person', 'person.id', 'member.person_id')
      .select('person.email')
      .where('account_id', '=', supplier.id)
      .where('role', '=', 'owner')
      .execute()
    expect(owners).toHaveLength(2)
    expect(sent.map((one) => one.to_address ?? '').toSorted()).toEqual(owners.map(({ email }) => email).toSorted())
    expect(new Set(sent.map((one) => one.template))).toEqual(new Set(['payout-details']))
    expect(await payoutsOf(supplier)).toMatchObject({ blockedBy: 'details_changed', details: { to: '…6789' } })
    paying.clock.advance(72 * HOUR_MS - MINUTE_MS)
    expect(await reasonOf(paying.operator('POST', PATH))).toBe('nothing_to_pay_out')
    paying.clock.advance(MINUTE_MS)
    await payOut(paying)
    expect(await earningsOf(supplier)).toBe(usd('0'))
  })

  test('take a payout out of a run that was drafted before', async () => {
    const supplier = await ready('100')
    const { id } = await done(paying.operator('POST', PATH))
    await setUpBank(supplier, { ...bank, iban: 'GB82 WEST 1234 5698 7654 32' })
    const run = await done(paying.operator('POST', `${PATH}/${id}/approve`))
    expect(run.payouts).toMatchObject([{ state: 'canceled', failure: 'details_changed' }])
    expect(await earningsOf(supplier)).toBe(usd('100'))
    paying.clock.advance(72 * HOUR_MS)
    await payOut(paying)
  })

  test('at Stripe count as changed too, also after the approval', async () => {
    const supplier = await ready('100', 'stripe')
    const payee = await setUpStripe(paying, supplier)
    await payOut(paying)
    paying.stripe.connect.onboard(payee, '1111')
    await settleAll()
    expect(await payoutsOf(supplier)).toMatchObject({
      details: { to: 'Stripe …1111' },
      payouts: [{ state: 'approved', failure: 'details_changed' }],
    })
    expect(paying.stripe.all('transfer').filter((one) => one['destination'] === payee)).toEqual([])
    paying.clock.advance(72 * HOUR_MS)
    await settleAll()
    expect((await payoutsOf(supplier)).payouts).toMatchObject([{ state: 'paid' }])
  })

  test('promise 30: need an owner with a sign-in of the last 15 minutes', async () => {
    const supplier = await openSupplier(paying)
    const headers = await personHeaders(paying.app, supplier)
    const put = () =>
      ask(paying.url, '/v2/supply/payouts/bank', { method: 'PUT', headers, body: bank }).then(({ status, text }) => [
        status,
        (JSON.parse(text) as { reason?: string }).reason,
      ])
    paying.clock.advance(16 * MINUTE_MS)
    expect(await put()).toEqual([403, 'recent_sign_in_required'])
    const at = toDate(paying.clock.now())
    await paying.app.database.db.updateTable('console_session').set({ auth_at: at }).execute()
    expect(await put()).toEqual([200, undefined])
    const clerk = await done(supplier.call('POST', '/v2/members', { email: 'clerk@example.test', role: 'member' }))
    const order = { name: 'clerk', scopes: ['supply'], memberId: clerk.id }
    const { key } = await done(supplier.call('POST', '/v2/api-keys', order))
    expect(await reasonOf(paying.as(key)('PUT', '/v2/supply/payouts/bank', bank))).toBe('owner_only')
  })

  test.each([
    [{ holder: 'A', iban: 'DE89370400440532013001' }, 'bad_iban'],
    [{ holder: 'A', iban: IBAN, bic: 'ABC' }, 'bad_bic'],
    [{ holder: 'A', iban: IBAN, accountNumber: '12345' }, 'two_bank_accounts'],
    [{ holder: 'A', accountNumber: '123456', routingNumber: '110000001' }, 'bad_routing_number'],
    [{ holder: 'A', accountNumber: '12' }, 'bad_account_number'],
    [{ holder: 'A' }, 'no_bank_account'],
  ])('are refused: %o is %s', async (details, reason) => {
    const supplier = await openSupplier(paying)
    const { body } = await supplier.call('PUT', '/v2/supply/payouts/bank', details)
    expect(JSON.stringify(body)).toContain(reason)
  })

  test('are sealed, and shown by their last characters only', async () => {
    const supplier = await openSupplier(paying)
    await setUpBank(supplier)
    const row = await paying.app.database.db
      .selectFrom('payout_account')
      .selectAll()
      .where('account_id', '=', supplier.id)
      .executeTakeFirstOrThrow()
    expect(JSON.stringify(row)).not.toContain(IBAN)
    expect(JSON.stringify(await payoutsOf(supplier))).not.toContain(IBAN.slice(0, -4))
  })
})

describe('promise 62: Stripe', () => {
  test('"paid" is what Stripe shows, and a timeout doubles nothing', async () => {
    const supplier = await ready('200.555', 'stripe')
    const payee = (await stripeOf(supplier)) ?? ''
    await payOut(paying)
    // Each call fails once, the transfer after it had its effect.
    paying.stripe.chaos = (call) =>
      call.method === 'POST' && call.path === '/v1/transfers' && transfersTo(payee).length === 0 ? 'after' : undefined
    await paying.settle()
    expect((await payoutsOf(supplier)).payouts).toMatchObject([{ state: 'approved' }])
    paying.stripe.chaos = undefined
    paying.clock.advance(MINUTE_MS)
    await paying.settle()
    expect((await payoutsOf(supplier)).payouts).toMatchObject([{ state: 'sent' }])
    paying.clock.advance(MINUTE_MS)
    await paying.settle()
    expect((await payoutsOf(supplier)).payouts).toMatchObject([{ state: 'paid', amountUsd: '200.550000000' }])
    expect(transfersTo(payee)).toMatchObject([{ amount: 20_055, currency: 'usd' }])
    expect(await earningsOf(supplier)).toBe(usd('0.005'))
    expect(await paying.findings()).toEqual([])
  })

  test('too little money there leaves it approved, and it is tried again with another key', async () => {
    const supplier = await ready('300', 'stripe')
    paying.stripe.connect.funds = 20_000
    const { id } = await payOut(paying)
    await settleAll()
    expect((await payoutsOf(supplier)).payouts).toMatchObject([{ state: 'approved', failure: 'balance_insufficient' }])
    expect(await done(paying.operator('GET', `${PATH}/${id}`))).toMatchObject({ state: 'approved' })
    paying.stripe.connect.funds = 1_000_000
    await settleAll()
    expect((await payoutsOf(supplier)).payouts).toMatchObject([{ state: 'paid', failure: null }])
    expect(await done(paying.operator('GET', `${PATH}/${id}`))).toMatchObject({ state: 'paid' })
    paying.stripe.connect.funds = Number.POSITIVE_INFINITY
  })

  test('a transfer that Stripe refuses is in the earnings again', async () => {
    const supplier = await ready('60', 'stripe')
    await payOut(paying)
    paying.stripe.chaos = ({ method, path }) => (method === 'POST' && path === '/v1/transfers' ? 'refuse' : undefined)
    await paying.settle()
    paying.stripe.chaos = undefined
    expect(await earningsOf(supplier)).toBe(usd('60'))
    const { payouts, payableUsd } = await payoutsOf(supplier)
    expect(payouts).toMatchObject([{ state: 'failed', returnedUsd: '60.000000000' }])
    expect(payableUsd).toBe('60.000000000')
    // Payouts of the same instant have no order.
    paying.clock.advance(MINUTE_MS)
    await payOut(paying)
    await settleAll()
    expect((await payoutsOf(supplier)).payouts).toMatchObject([{ state: 'paid' }, { state: 'failed' }])
    expect(await paying.findings()).toEqual([])
  })

  test('what Stripe reverses is in the earnings again, once, by any number of messages', async () => {
    const supplier = await ready('120', 'stripe')
    await payOut(paying)
    await settleAll()
    const [transfer] = transfersTo((await stripeOf(supplier)) ?? '')
    const id = String(transfer?.['id'])
    paying.stripe.connect.reverse(id, 2_000)
    const event = paying.stripe.events.at(-1)
    for (let n = 0; n < 2; n += 1) if (event !== undefined) await paying.stripe.deliver(paying.url, event)
    await settleAll()
    expect(await earningsOf(supplier)).toBe(usd('20'))
    expect((await payoutsOf(supplier)).payouts).toMatchObject([{ state: 'paid', returnedUsd: '20.000000000' }])
    paying.stripe.connect.reverse(id)
    await settleAll()
    expect(await earningsOf(supplier)).toBe(usd('120'))
    expect((await payoutsOf(supplier)).payouts).toMatchObject([{ state: 'failed', returnedUsd: '120.000000000' }])
    expect(await paying.findings()).toEqual([])
    await payOut(paying)
    await settleAll()
    expect((await payoutsOf(supplier)).payouts).toMatchObject([{ state: 'paid' }, { state: 'failed' }])
  })

  test('a supplier that Stripe does not pay yet is left out', async () => {
    const supplier = await openSupplier(paying)
    await earn(paying, supplier.id, '55')
    await done(supplier.call('POST', '/v2/supply/payouts/stripe', {}))
    paying.clock.advance(HOLDBACK_MS + MINUTE_MS)
    expect(await payoutsOf(supplier)).toMatchObject({ blockedBy: 'not_confirmed', details: { confirmed: false } })
    expect(await reasonOf(supplier.call('POST', '/v2/supply/payouts/stripe', { country: 'JP' }))).toBe('payout_country')
    await setUpStripe(paying, supplier)
    expect(paying.stripe.all('account').filter((one) => accountOf(one) === supplier.id)).toHaveLength(1)
    paying.clock.advance(72 * HOUR_MS)
    await payOut(paying)
    await settleAll()
    expect((await payoutsOf(supplier)).payouts).toMatchObject([{ state: 'paid' }])
  })

  test('the daily comparison knows transfers and reversals, and shows what it does not know', async () => {
    paying.clock.advance(2 * HOUR_MS)
    const compared = await done(paying.operator('POST', '/v2/operator/payments/reconcile'))
    expect(compared).toMatchObject({ differencesTotal: 0, differences: [] })
    expect(compared.objects).toBeGreaterThan(4)
    const [transfer] = paying.stripe.all('transfer')
    const lost = paying.stripe.all('balance_transaction').find((one) => one['source'] === transfer?.['id'])
    await paying.app.database.db.deleteFrom('processor_transaction').where('id', '=', String(lost?.['id'])).execute()
    paying.stripe.objects.delete(String(lost?.['id']))
    const again = await done(paying.operator('POST', '/v2/operator/payments/reconcile'))
    expect(again.differences).toMatchObject([{ subject: transfer?.['id'], kind: 'transfer', processorUsd: null }])
  })
})

describe('promise 63: the bank file', () => {
  test('adds up, escapes names, and is exported once', async () => {
    const supplier = await openSupplier(paying)
    const other = await openSupplier(paying)
    await earn(paying, supplier.id, '100.01')
    await earn(paying, other.id, '200.02')
    await setUpBank(supplier, { ...bank, holder: '=HYPERLINK("x"), Böhm & <Co>' })
    await setUpBank(other, { holder: 'Ada, Inc.', accountNumber: '000123456789', routingNumber: '110000000' })
    paying.clock.advance(HOLDBACK_MS + MINUTE_MS)
    const { id } = await done(paying.operator('POST', PATH))
    expect(await reasonOf(paying.operator('POST', `${PATH}/${id}/export`, {}))).toBe('payout_run_not_approved')
    await done(paying.operator('POST', `${PATH}/${id}/approve`))
    const order = { format: 'csv', eurRate: '0.9' }
    const exports = await Promise.all([1, 2, 3].map(() => paying.operator('POST', `${PATH}/${id}/export`, order)))
    const files = exports.filter(({ status }) => status === 200)
    expect(files).toHaveLength(1)
    expect(exports.filter(({ body }) => body.reason === 'payout_run_exported')).toHaveLength(2)
    const file = files[0]?.body
    const lines = String(file.text).split('\r\n')
    // 100.01 × 0.9 = 90.009 and 200.02 × 0.9 = 180.018, each rounded down to cents.
    expect([file.currency, file.total]).toEqual(['EUR', '270.01'])
    expect(lines[0]).toBe('payout_id,holder,iban,bic,account_number,routing_number,amount,currency')
    expect(lines[1]).toMatch(/^po_\w+,"Ada, Inc\.",,,000123456789,110000000,180\.01,EUR$/)
    expect(lines[2]).toMatch(/^po_\w+,"'=HYPERLINK\(""x""\), Böhm & <Co>",DE89370400440532013000,,,,90\.00,EUR$/)
    expect(await done(paying.operator('GET', `${PATH}/${id}`))).toMatchObject({
      state: 'sent',
      exportedAs: 'EUR 270.01',
      payouts: [{ state: 'sent' }, { state: 'sent' }],
    })
    expect(await paying.findings()).toEqual([])
    await settlePaid(id)
  })

  test('only the same request with the same key gets it again', async () => {
    await ready('64')
    const { id } = await payOut(paying)
    const headers = { 'Idempotency-Key': 'export-1' }
    const first = await done(paying.operator('POST', `${PATH}/${id}/export`, {}, headers))
    expect(await done(paying.operator('POST', `${PATH}/${id}/export`, {}, headers))).toEqual(first)
    expect(await reasonOf(paying.operator('POST', `${PATH}/${id}/export`, {}))).toBe('payout_run_exported')
    await settlePaid(id)
  })

  test('promise 62: "paid" needs the operator\'s word, and a returned transfer is in the earnings again', async () => {
    const supplier = await ready('150')
    const other = await ready('160')
    const { id, payouts } = await payOut(paying)
    expect(await reasonOf(settleAs(id, 'paid'))).toBe('nothing_to_settle')
    await done(paying.operator('POST', `${PATH}/${id}/export`, {}))
    expect((await payoutsOf(supplier)).payouts).toMatchObject([{ state: 'sent' }])
    await settlePaid(id)
    expect((await payoutsOf(supplier)).payouts).toMatchObject([{ state: 'paid' }])
    const payout = payouts.find((one: { accountId: string }) => one.accountId === supplier.id)
    for (const settled of [1, 2].map(() => settleAs(id, 'failed', [payout.id]))) await settled
    expect(await earningsOf(supplier)).toBe(usd('150'))
    expect(await earningsOf(other)).toBe(usd('0'))
    expect((await payoutsOf(supplier)).payouts).toMatchObject([{ state: 'failed', returnedUsd: '150.000000000' }])
    expect(await reasonOf(settleAs(id, 'failed', [payout.id]))).toBe('payout_not_exported')
    expect(await paying.findings()).toEqual([])
    const next = await payOut(paying)
    expect(next.payouts).toMatchObject([{ accountId: supplier.id, amountUsd: '150.000000000' }])
  })

  test('needs the account of the operator for XML', async () => {
    const { runs } = await done(paying.operator('GET', PATH))
    const open = runs.find((run: { state: string }) => run.state === 'approved')
    const { body } = await paying.operator('POST', `${PATH}/${open.id}/export`, { format: 'pain.001' })
    expect(JSON.stringify(body)).toContain('no_debtor_account')
  })
})

test('without Stripe, bank accounts are what there is', async () => {
  const supplier = await openSupplier(paying)
  const { processor: _, ...app } = paying.app
  const { draftRun } = await import('../src/app/payout/payout-run.ts')
  const { transact } = await import('../src/store/platform/database.ts')
  await setUpStripe(paying, supplier)
  await earn(paying, supplier.id, '80')
  paying.clock.advance(HOLDBACK_MS + MINUTE_MS)
  const drafted = await transact(app.database, (tx) => draftRun(app, tx, 'test'))
  expect(drafted).toMatchObject({ ok: false, reason: 'nothing_to_pay_out' })
})

function settleAs(id: string, outcome: 'paid' | 'failed', payoutIds?: string[]) {
  return paying.operator('POST', `${PATH}/${id}/settle`, { outcome, reason: 'statement of the bank', payoutIds })
}

async function settlePaid(id: string): Promise<void> {
  expect(await done(settleAs(id, 'paid'))).toMatchObject({ state: 'paid' })
}

async function stripeOf({ id }: Supplier): Promise<string | null | undefined> {
  const row = await paying.app.database.db
    .selectFrom('payout_account')
    .select('stripe_id')
    .where('account_id', '=', id)
    .executeTakeFirst()
  return row?.stripe_id
}

function transfersTo(payee: string) {
  return paying.stripe.all('transfer').filter((one) => one['destination'] === payee)
}

function accountOf(account: { readonly [name: string]: unknown }): unknown {
  return (account['metadata'] as { readonly berth_account?: string }).berth_account
}
