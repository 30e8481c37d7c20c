/** The daily comparison with Stripe's own ledger: fees are booked once, and whatever differs is shown. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../src/base/instant.ts'
import { usd } from '../src/base/money.ts'
import { comparePaymentsDaily } from '../src/reconcile/payment-comparison.ts'
import { payTopUp, startPaying, type Paying } from './harness/paying.ts'

let paying: Paying
beforeAll(async () => {
  paying = await startPaying()
})
afterAll(() => paying.close())

const CENT = usd('0.01')
const atStripe = (field: string): bigint =>
  paying.stripe.all('balance_transaction').reduce((sum, row) => sum + BigInt(row[field] as number), 0n) * CENT

async function pay(amountUsd = '100') {
  const { id: accountId, call } = await paying.account({ sshKey: false })
  paying.stripe.taxPercent = 19
  const payment = await payTopUp(paying, call, amountUsd)
  paying.stripe.taxPercent = 0
  await handle()
  return { accountId, ...payment }
}

async function handle(): Promise<void> {
  await paying.deliver()
  await paying.settle()
}

async function compare() {
  paying.clock.advance(2 * HOUR_MS)
  const { status, body } = await paying.operator('POST', '/v2/operator/payments/reconcile')
  expect(status, JSON.stringify(body)).toBe(200)
  return body as {
    objects: number
    processorUsd: string
    recordedUsd: string
    feesUsd: string
    differencesTotal: number
    differences: Array<{ subject: string; kind: string; processorUsd: string | null; recordedUsd: string | null }>
  }
}

const countAlerts = async () => (await paying.alerts()).filter((one) => one.startsWith('difference')).length

test('payments, refunds and disputes of every outcome differ in nothing, and fees are booked once', async () => {
  const { id } = await pay()
  const order = { amountUsd: '40', reason: 'test' }
  await paying.operator('POST', `/v2/operator/payments/${id}/refund`, order)
  await handle()
  const { id: other } = await pay()
  await paying.operator('POST', `/v2/operator/payments/${other}/refund`, order)
  await handle()
  paying.stripe.failRefund(String(paying.stripe.all('refund').at(-1)?.['id']))
  for (const end of ['won', 'lost'] as const) {
    const { intentId } = await pay('50')
    const dispute = paying.stripe.dispute(intentId, end === 'won' ? {} : { cents: 1_234 })
    await handle()
    paying.stripe.closeDispute(String(dispute['id']), end)
  }
  await handle()
  const compared = await compare()
  expect(compared).toMatchObject({ objects: 8, differencesTotal: 0, differences: [] })
  expect(usd(compared.processorUsd)).toBe(atStripe('amount'))
  expect([usd(compared.feesUsd), -(await paying.house('processor_fees'))]).toEqual([atStripe('fee'), atStripe('fee')])
  expect(await paying.house('processor')).toBe(-atStripe('net'))
  await compare()
  expect(await paying.house('processor')).toBe(-atStripe('net'))
  expect(await paying.findings()).toEqual([])
  expect(await countAlerts()).toBe(0)
})

test('what Stripe does on its own is a fee, or leaves the comparison alone', async () => {
  paying.stripe.moveBalance('fee', -700)
  paying.stripe.moveBalance('payout', -5_000)
  const before = await paying.house('processor_fees')
  expect(await compare()).toMatchObject({ differencesTotal: 0 })
  expect(await paying.house('processor_fees')).toBe(before - usd('7'))
  expect(await paying.findings()).toEqual([])
})

test('whatever changed in the last hour is left for the next comparison', async () => {
  const before = await compare()
  await pay()
  paying.clock.advance(10 * MINUTE_MS)
  const { body } = await paying.operator('POST', '/v2/operator/payments/reconcile')
  expect(body.objects).toBe(before.objects)
  expect((await compare()).objects).toBe(before.objects + 1)
})

test('a comparison beside another one is refused, and books no fee twice', async () => {
  await pay()
  const replies = await Promise.all([1, 2, 3].map(() => paying.operator('POST', '/v2/operator/payments/reconcile')))
  for (const { status, body } of replies) expect(status === 200 || body.reason === 'comparison_running').toBe(true)
  await compare()
  expect(await paying.house('processor_fees')).toBe(-atStripe('fee') - usd('7'))
})

test('money that only one side has is shown with both amounts, stored, and told to operators once a day', async () => {
  const session = paying.stripe.payElsewhere(4_200)
  const charge = paying.stripe.get(String(session['payment_intent']))['latest_charge']
  const { id, intentId } = await pay('30')
  const lost = paying.stripe.all('balance_transaction').at(-1)
  paying.stripe.objects.delete(String(lost?.['id']))
  const adjustment = paying.stripe.moveBalance('other_adjustment', -300)
  const compared = await compare()
  expect(compared.differences).toEqual([
    { subject: charge, kind: 'charge', processorUsd: '42.000000000', recordedUsd: null },
    {
      subject: paying.stripe.get(intentId)['latest_charge'],
      kind: 'charge',
      processorUsd: null,
      recordedUsd: '35.700000000',
    },
    { subject: adjustment['id'], kind: 'other', processorUsd: '-3.000000000', recordedUsd: null },
  ])
  expect(await countAlerts()).toBe(1)
  const { body } = await paying.operator('GET', '/v2/operator/payments')
  expect(body.comparison).toMatchObject({ differencesTotal: 3, differences: compared.differences })
  expect(body.payments.map((one: { id: string }) => one.id)).toContain(id)
  await compare()
  expect(await countAlerts()).toBe(1)
})

test('after weeks without a comparison all of it is read, and a failed one is repeated', async () => {
  await pay()
  paying.clock.advance(30 * DAY_MS)
  await pay()
  paying.clock.advance(20 * DAY_MS)
  const loop = comparePaymentsDaily(paying.app)
  const { signal } = new AbortController()
  paying.stripe.faults.push(undefined, 'before')
  await expect(loop.run(signal)).rejects.toThrow('payment processor')
  const before = await countAlerts()
  paying.clock.advance(HOUR_MS)
  await loop.run(signal)
  expect(await countAlerts()).toBe(before + 1)
  // The turn lasts a day.
  paying.clock.advance(HOUR_MS)
  const calls = paying.stripe.calls.length
  await loop.run(signal)
  expect(paying.stripe.calls.length).toBe(calls)
  expect((await compare()).differencesTotal).toBe(3)
  expect(await paying.findings()).toEqual([])
})

test('customers cannot compare', async () => {
  const { call } = await paying.account({ sshKey: false })
  expect((await call('POST', '/v2/operator/payments/reconcile')).body.reason).toBe('missing_scope')
})
