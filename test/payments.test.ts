/** Payments by card against a simulated Stripe: what is credited, when, and what never is. */
import { randomInt } from 'node:crypto'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../src/base/instant.ts'
import { usd, zeroUsd } from '../src/base/money.ts'
import { receiveEvent } from '../src/store/payment/processor-event.ts'
import { transact } from '../src/store/platform/database.ts'
import { HUNDRED, payTopUp, rowOf, startPaying, topUp, type Paying } from './harness/paying.ts'
import { cards } from './sim/stripe-object.ts'

let paying: Paying
const lines: string[] = []
beforeAll(async () => {
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) })
  paying = await startPaying({ log })
})
afterAll(() => paying.close())

const account = () => paying.account({ sshKey: false })
const stateOf = async (id: string) => (await rowOf(paying.app, id)).state
const countEvents = async () =>
  (await paying.app.database.db.selectFrom('processor_event').select('id').execute()).length

test('a top-up has a page, is credited after it is paid, and its state can be read', async () => {
  const { id: accountId, call } = await account()
  const { id, url, state } = await topUp(call, '25.50', { saveCard: true })
  expect([state, url]).toEqual(['open', expect.stringContaining('https://checkout.stripe.example/')])
  const { session_id: sessionId } = await rowOf(paying.app, id)
  paying.stripe.pay(sessionId ?? '')
  await paying.deliver()
  await paying.settle()
  const read = await call('GET', `/v2/billing/top-ups/${id}`)
  expect(read.body).toMatchObject({ state: 'paid', amountUsd: '25.500000000', taxUsd: '0.000000000', url: null })
  expect(await paying.available(accountId)).toBe(usd('25.5'))
  const saved = paying.app.database.db.selectFrom('saved_card').select('last4').where('account_id', '=', accountId)
  expect(await saved.execute()).toEqual([{ last4: '4242' }])
  const { payment_method: method } = paying.stripe.get((await rowOf(paying.app, id)).intent_id ?? '')
  paying.stripe.detach(String(method))
  await paying.deliver()
  await paying.settle()
  expect(await saved.where('removed_at', 'is', null).execute()).toEqual([])
  const { call: stranger } = await account()
  expect((await stranger('GET', `/v2/billing/top-ups/${id}`)).body.reason).toBe('payment_not_found')
})

test.each([
  ['0.01', 'top_up_range'],
  ['4.99', 'top_up_range'],
  ['10000.01', 'top_up_range'],
  ['20.001', 'not_whole_cents'],
])('a top-up of %s is refused: %s', async (amountUsd, reason) => {
  const { call } = await account()
  const { body } = await call('POST', '/v2/billing/top-ups', { amountUsd })
  expect(JSON.stringify(body)).toContain(reason)
})

test('promise 32: the same event twice, another of the same payment, and page and webhook at once credit once', async () => {
  const { id: accountId, call } = await account()
  const { id } = await payTopUp(paying, call)
  const events = paying.stripe.events.slice(-2)
  await Promise.all([...events, ...events, ...events].map((event) => paying.stripe.deliver(paying.url, event)))
  await Promise.all([paying.settle(), paying.settle(), call('GET', `/v2/billing/top-ups/${id}`)])
  await paying.deliver()
  await paying.settle()
  expect(await paying.available(accountId)).toBe(HUNDRED)
  expect(await paying.findings()).toEqual([])
})

test('promise 33: an event whose handling failed is handled when it comes again', async () => {
  const { id: accountId, call } = await account()
  const { intentId } = await payTopUp(paying, call)
  await paying.deliver()
  await paying.settle()
  paying.stripe.dispute(intentId)
  const event = paying.stripe.events.at(-1)
  if (event === undefined) throw new Error('no event')
  paying.stripe.faults.push('before', 'before', 'before')
  await paying.deliver()
  await paying.settle()
  expect(await paying.available(accountId)).toBe(HUNDRED)
  paying.stripe.faults.length = 0
  expect(await paying.stripe.deliver(paying.url, event)).toBe(200)
  await paying.settle()
  expect(await paying.available(accountId)).toBe(zeroUsd)
})

test('promise 34: without any webhook the money arrives within five minutes', async () => {
  const { id: accountId, call } = await account()
  const { id } = await topUp(call)
  // Long after the loop has stopped asking often.
  paying.clock.advance(16 * MINUTE_MS)
  await paying.settle()
  paying.stripe.pay((await rowOf(paying.app, id)).session_id ?? '')
  await paying.catchUp()
  expect(await paying.available(accountId)).toBe(HUNDRED)
})

test('promise 34: also without the list of events an open payment is asked about by itself', async () => {
  const { id: accountId, call } = await account()
  await payTopUp(paying, call)
  paying.clock.advance(11 * SECOND_MS)
  await paying.settle()
  expect(await paying.available(accountId)).toBe(HUNDRED)
})

test('promise 35: events in any order lead to the same rows', async () => {
  const outcomes = new Set<string>()
  const orders = [
    <T>(all: T[]) => all,
    <T>(all: T[]) => all.toReversed(),
    <T>(all: T[]) => [...all.slice(2), ...all.slice(0, 2), ...all],
  ]
  for (const order of orders) {
    const { id: accountId, call } = await account()
    const { id, intentId } = await payTopUp(paying, call)
    const dispute = paying.stripe.dispute(intentId)
    paying.stripe.closeDispute(String(dispute['id']), 'won')
    await paying.deliver(order)
    await paying.settle()
    paying.clock.advance(HOUR_MS)
    await paying.settle()
    const row = await paying.app.database.db
      .selectFrom('payment_dispute')
      .select(['state', 'taken_nano', 'is_returned'])
      .where('payment_id', '=', id)
      .executeTakeFirst()
    outcomes.add(
      [
        await stateOf(id),
        await paying.available(accountId),
        row?.state,
        String(row?.taken_nano === 0n || row?.is_returned),
      ].join(' '),
    )
  }
  expect([...outcomes]).toEqual([`paid ${HUNDRED} won true`])
  expect(await paying.findings()).toEqual([])
})

describe('promise 36: nothing is written by a message', () => {
  const cases: Array<[string, Parameters<Paying['stripe']['deliver']>[2]]> = [
    ['that is altered', { change: (text) => text.replace('"usd"', '"eur"') }],
    ['of another secret', { secret: 'whsec_anothersecret00001' }],
    ['that is 301 seconds old', { at: -301 * SECOND_MS }],
  ]
  test.each(cases)('%s', async (_, options = {}) => {
    const { call } = await account()
    await payTopUp(paying, call)
    const event = paying.stripe.events.at(-1) ?? {}
    const before = await countEvents()
    const at = options.at === undefined ? {} : { at: paying.clock.now() + options.at }
    expect(await paying.stripe.deliver(paying.url, event, { ...options, ...at })).toBe(400)
    expect(await countEvents()).toBe(before)
    expect(await paying.stripe.deliver(paying.url, event, { at: paying.clock.now() - 299 * SECOND_MS })).toBe(200)
    expect(await countEvents()).toBe(before + 1)
  })

  test('without a signature', async () => {
    const before = await countEvents()
    const response = await fetch(`${paying.url}/stripe/webhook`, { method: 'POST', body: '{}' })
    expect(response.status).toBe(400)
    expect(await countEvents()).toBe(before)
  })
})

test('promise 36: two secrets work during a change', async () => {
  const old = 'whsec_theoldsecret000001'
  const other = await startPaying({ env: { BERTH_STRIPE_WEBHOOK_SECRETS: `whsec_simulatedsecret0001,${old}` } })
  try {
    other.stripe.payElsewhere(500)
    const [first = {}, second = {}] = other.stripe.events
    expect(await other.stripe.deliver(other.url, first, { secret: old })).toBe(200)
    expect(await other.stripe.deliver(other.url, second)).toBe(200)
  } finally {
    await other.close()
  }
})

test.each([true, false])('promise 37: events of the other mode do nothing (live: %s)', async (isLive) => {
  const other = await startPaying({ isLive })
  try {
    const { id: accountId, call } = await other.account({ sshKey: false })
    await payTopUp(other, call)
    const event = { ...other.stripe.events.at(-1), livemode: !isLive }
    expect(await other.stripe.deliver(other.url, event)).toBe(200)
    await other.settle()
    expect(await other.app.database.db.selectFrom('processor_event').select('id').execute()).toEqual([])
    expect(await other.available(accountId)).toBe(zeroUsd)
    // Also a row of the other mode, as after a restored backup, is left alone.
    await other.app.database.db.updateTable('payment').set({ is_live: !isLive }).execute()
    await other.catchUp()
    expect(await other.available(accountId)).toBe(zeroUsd)
  } finally {
    await other.close()
  }
})

describe('promise 38: nothing is credited, and the operator is told', () => {
  const changes = {
    'another amount': { amount_subtotal: 10_001, amount_total: 10_001 },
    'another total': { amount_total: 9_000 },
    'another currency': { currency: 'eur' },
    'another customer': { customer: 'cus_other' },
    'another reference': { client_reference_id: 'pay_other' },
    'another mode': { mode: 'setup' },
    'the other mode of Stripe': { livemode: true },
  }
  test.each(Object.entries(changes))('%s', async (_, change) => {
    const { id: accountId, call } = await account()
    const { id } = await payTopUp(paying, call, '100', change)
    await paying.deliver()
    await paying.settle()
    expect([await stateOf(id), await paying.available(accountId)]).toEqual(['mismatch', zeroUsd])
    expect(await paying.alerts()).toContain(`mismatch ${id}`)
  })

  test('a foreign session', async () => {
    const session = paying.stripe.payElsewhere(4_200)
    const before = await paying.house('processor')
    await paying.deliver()
    await paying.settle()
    expect(await paying.alerts()).toContain(`foreign ${String(session['payment_intent'])}`)
    expect(await paying.house('processor')).toBe(before)
    const notices = await paying.app.database.db
      .selectFrom('notification')
      .select('kind')
      .where('subject_id', '=', String(session['payment_intent']))
      .execute()
    expect(notices).toEqual([{ kind: 'operator_payment' }])
  })
})

test('promise 39: $100 at 19 % charges $119.00, credits exactly $100 and books $19 of tax', async () => {
  const { id: accountId, call } = await account()
  const before = await paying.house('tax')
  paying.stripe.taxPercent = 19
  const { id, intentId } = await payTopUp(paying, call)
  paying.stripe.taxPercent = 0
  await paying.deliver()
  await paying.settle()
  expect(paying.stripe.get(intentId)['amount']).toBe(11_900)
  expect([await paying.available(accountId), (await paying.house('tax')) - before]).toEqual([HUNDRED, usd('19')])
  expect((await call('GET', `/v2/billing/top-ups/${id}`)).body.taxUsd).toBe('19.000000000')
})

test('an operator sees payments of all accounts, after what to look at', async () => {
  const { body } = await paying.operator('GET', '/v2/operator/payments')
  expect(body.alerts[0]).toMatchObject({ kind: 'foreign', accountId: null })
  expect(body.payments.map(({ state }: { state: string }) => state)).toContain('mismatch')
  const { call } = await account()
  expect((await call('GET', '/v2/operator/payments')).body.reason).toBe('missing_scope')
})

test('a declined card can be tried again with another; a page that expires credits nothing', async () => {
  const { id: accountId, call } = await account()
  const { id } = await topUp(call)
  const sessionId = (await rowOf(paying.app, id)).session_id ?? ''
  paying.stripe.pay(sessionId, cards.declined)
  await paying.deliver()
  await paying.settle()
  expect(await stateOf(id)).toBe('open')
  paying.stripe.pay(sessionId, cards.other)
  const { id: late } = await topUp(call)
  paying.stripe.expire((await rowOf(paying.app, late)).session_id ?? '')
  await paying.deliver()
  await paying.settle()
  expect([await stateOf(id), await stateOf(late)]).toEqual(['paid', 'expired'])
  expect(await paying.available(accountId)).toBe(HUNDRED)
})

test('promise 40: lost answers at every call create one customer, one page and one credit', async () => {
  for (const fault of ['before', 'after'] as const) {
    const { id: accountId, call } = await account()
    const sessions = paying.stripe.all('checkout.session').length
    const customers = paying.stripe.all('customer').length
    // The customer, the session, and the first look at it each fail once.
    paying.stripe.faults.push(fault)
    const { id, url } = await topUp(call)
    expect(url).toBeNull()
    for (let n = 0; n < 3; n += 1) {
      paying.clock.advance(MINUTE_MS)
      paying.stripe.faults.push(undefined, fault)
      await paying.settle()
    }
    paying.stripe.faults.length = 0
    paying.clock.advance(5 * MINUTE_MS)
    await paying.settle()
    const { session_id: sessionId } = await rowOf(paying.app, id)
    paying.stripe.pay(sessionId ?? '')
    await paying.catchUp()
    expect([
      paying.stripe.all('checkout.session').length - sessions,
      paying.stripe.all('customer').length - customers,
      await paying.available(accountId),
    ]).toEqual([1, 1, HUNDRED])
  }
})

test('a call that Stripe refuses for good ends the payment', async () => {
  const { call } = await account()
  paying.stripe.faults.push(undefined, 'refuse')
  const { id, state } = await topUp(call)
  expect(state).toBe('failed')
  expect((await call('GET', `/v2/billing/top-ups/${id}`)).body.failure).toContain('parameter_invalid')
})

describe('refunds', () => {
  async function paid(amountUsd = '100') {
    const { id: accountId, call } = await account()
    paying.stripe.taxPercent = 19
    const payment = await payTopUp(paying, call, amountUsd)
    paying.stripe.taxPercent = 0
    await paying.deliver()
    await paying.settle()
    return { accountId, ...payment }
  }
  const refund = (id: string, amountUsd: string) =>
    paying.operator('POST', `/v2/operator/payments/${id}/refund`, { amountUsd, reason: 'asked for it' })

  test('promise 45: the money leaves the balance first, and Stripe gets one refund with its tax', async () => {
    const { accountId, id, intentId } = await paid()
    const { body } = await refund(id, '40')
    expect(body).toMatchObject({ state: 'open', amountUsd: '40.000000000', taxUsd: '7.600000000' })
    expect(await paying.available(accountId)).toBe(usd('60'))
    paying.stripe.faults.push(undefined, 'after')
    await paying.settle()
    paying.stripe.faults.length = 0
    paying.clock.advance(MINUTE_MS)
    await paying.settle()
    const refunds = paying.stripe.all('refund').filter((one) => one['payment_intent'] === intentId)
    expect(refunds.map(({ amount }) => amount)).toEqual([4_760])
    expect(JSON.stringify((await refund(id, '60.01')).body)).toContain('refund_too_large')
    expect(await paying.available(accountId)).toBe(usd('60'))
  })

  test('promise 45: a refund that fails comes back, also after it had succeeded', async () => {
    const { accountId, id, intentId } = await paid()
    await refund(id, '100')
    await paying.settle()
    expect(await paying.available(accountId)).toBe(zeroUsd)
    const [made] = paying.stripe.all('refund').filter((one) => one['payment_intent'] === intentId)
    paying.stripe.failRefund(String(made?.['id']))
    await paying.deliver()
    await paying.settle()
    expect(await paying.available(accountId)).toBe(HUNDRED)
    expect(await paying.findings()).toEqual([])
  })

  test('promise 47: a refund of a disputed payment fails, and the dispute takes its part', async () => {
    const { accountId, id, intentId } = await paid()
    await refund(id, '30')
    paying.stripe.dispute(intentId)
    await paying.deliver()
    await paying.settle()
    expect(await paying.available(accountId)).toBe(zeroUsd)
    const row = await paying.app.database.db
      .selectFrom('payment_dispute')
      .select(['taken_nano', 'tax_nano'])
      .where('payment_id', '=', id)
      .executeTakeFirstOrThrow()
    expect(row).toEqual({ taken_nano: HUNDRED, tax_nano: usd('19') })
    expect(await paying.findings()).toEqual([])
  })

  test('promise 47: an inquiry takes nothing; when it becomes a dispute, that does, and winning returns it', async () => {
    const { accountId, intentId } = await paid()
    const dispute = String(paying.stripe.dispute(intentId, { inquiry: true })['id'])
    await paying.deliver()
    await paying.settle()
    expect(await paying.available(accountId)).toBe(HUNDRED)
    expect(await paying.alerts()).toContain(`dispute ${dispute}`)
    paying.stripe.withdraw(dispute)
    await paying.deliver()
    await paying.settle()
    expect(await paying.available(accountId)).toBe(zeroUsd)
    paying.stripe.closeDispute(dispute, 'won')
    await paying.deliver()
    await paying.settle()
    expect(await paying.available(accountId)).toBe(HUNDRED)
  })

  test('an early fraud warning is for the operator and takes nothing', async () => {
    const { accountId, id, intentId } = await paid()
    paying.stripe.warn(intentId)
    await paying.deliver()
    await paying.settle()
    expect(await paying.alerts()).toContain(`fraud_warning ${id}`)
    expect(await paying.available(accountId)).toBe(HUNDRED)
  })
})

test('promise 40: whatever calls and answers are lost, Stripe and the ledger end with the same money', async () => {
  const seed = Number(process.env['BERTH_TEST_PAYMENT_SEED'] ?? randomInt(1e9))
  const rounds = Number(process.env['BERTH_TEST_PAYMENT_ROUNDS'] ?? 6)
  const random = seeded(seed)
  const other = await startPaying()
  try {
    const { id: accountId, call } = await other.account({ sshKey: false })
    other.stripe.taxPercent = 19
    const lose = () => {
      other.stripe.faults.length = 0
      for (let n = 0; n < 40; n += 1)
        other.stripe.faults.push([undefined, undefined, 'before', 'after'][Math.floor(random() * 4)] as never)
    }
    const calm = async () => {
      other.stripe.faults.length = 0
      other.clock.advance(HOUR_MS)
      await other.catchUp()
      other.clock.advance(HOUR_MS)
      await other.settle()
    }
    for (let round = 0; round < rounds; round += 1) {
      lose()
      const { id } = await topUp(call, '50')
      for (let n = 0; n < 4; n += 1) {
        other.clock.advance(MINUTE_MS)
        await other.settle()
      }
      other.stripe.faults.length = 0
      other.clock.advance(5 * MINUTE_MS)
      await other.settle()
      const session = other.stripe.all('checkout.session').find((one) => one['client_reference_id'] === id)
      if (session?.['status'] !== 'open') continue
      const intentId = String(other.stripe.pay(String(session['id']))['id'])
      lose()
      if (random() < 0.5) await other.deliver((events) => events.toReversed())
      await other.settle()
      await calm()
      lose()
      await other.operator('POST', `/v2/operator/payments/${id}/refund`, { amountUsd: '10', reason: 'test' })
      if (random() < 0.5) other.stripe.dispute(intentId)
      await other.settle()
      await calm()
    }
    const atStripe = other.stripe.all('balance_transaction').reduce((sum, row) => sum + (row['amount'] as number), 0)
    expect(await other.house('processor'), `seed ${seed}`).toBe(-BigInt(atStripe) * usd('0.01'))
    expect(other.stripe.all('customer'), `seed ${seed}`).toHaveLength(1)
    expect(await other.findings(), `seed ${seed}`).toEqual([])
    expect(
      (await other.alerts()).filter((one) => !one.startsWith('dispute')),
      `seed ${seed}`,
    ).toEqual([])
    expect(await other.available(accountId)).toBeGreaterThanOrEqual(0n)
  } finally {
    await other.close()
  }
})

/** A linear congruential generator: its numbers can be repeated. */
function seeded(seed: number): () => number {
  let state = seed % 2_147_483_647 || 1
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647
}

test('messages are kept once, and due again only while they are not handled', async () => {
  const { database, clock } = paying.app
  const message = { id: 'evt_kept', isLive: false, type: 'refund.updated', objectId: 're_none', at: clock.now() }
  const receive = () => transact(database, (tx) => receiveEvent(tx, message))
  await receive()
  await paying.settle()
  await receive()
  const row = await database.db
    .selectFrom('processor_event')
    .select(['due_at', 'handled_at'])
    .where('id', '=', 'evt_kept')
    .executeTakeFirstOrThrow()
  expect([row.due_at, row.handled_at]).toEqual([null, clock.now()])
})

test('promise 59: keys and secrets of Stripe are in no log, row or answer', async () => {
  const { call } = await account()
  const stripe = paying.stripe
  stripe.faults.push(undefined, 'before')
  const answers = [
    JSON.stringify(await topUp(call)),
    JSON.stringify((await call('GET', '/v2/customer/statement')).body),
  ]
  const rows = await paying.app.database.db.selectFrom('payment').selectAll().execute()
  const events = await paying.app.database.db.selectFrom('processor_event').selectAll().execute()
  const everything = [
    ...lines,
    ...answers,
    JSON.stringify([rows, events], (_, v: unknown) => (typeof v === 'bigint' ? `${v}` : v)),
  ].join('\n')
  expect(lines.length).toBeGreaterThan(0)
  for (const word of ['simulatedkey', 'simulatedsecret']) expect(everything).not.toContain(word)
})

test('the whole ledger adds up, and the processor has what Stripe says, less its fees', async () => {
  expect(await paying.findings()).toEqual([])
})
