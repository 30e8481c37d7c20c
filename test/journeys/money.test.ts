/** Charges and the end of the balance, to the nano-dollar and the millisecond, on a clock the test controls. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS } from '../../src/base/instant.ts'
import { costOfSpan, formatUsd, spanAffordable, usd, type NanoUsd } from '../../src/base/money.ts'
import {
  chargedFor,
  eventTypesOf,
  checkLedgerAndEngines,
  startJourney,
  succeed,
  type Journey,
} from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

/** One H100 with Ethernet. */
const PRICE = usd('2.49')
const path = '/v2/alpha/on-demand/virtual-machine-rentals'

let journey: Journey
beforeAll(async () => {
  journey = await startJourney()
})
afterAll(() => journey.close())

const detail = (by: Call, id: number) => succeed(by, 'GET', `/v2/alpha/on-demand/rentals/${id}`)
const after = (from: string, ms: number): string => new Date(Date.parse(from) + ms).toISOString()
const end = async (by: Call, rentalId: number) => {
  await succeed(by, 'POST', `${path}/terminate`, { rentalId })
  await journey.pass()
}
const balanceOf = async (by: Call): Promise<NanoUsd> =>
  usd((await succeed(by, 'GET', '/v2/customer/balance')).balanceUsd)
const credit = (id: string, amountUsd: string) =>
  succeed(journey.operator, 'POST', `/v2/operator/accounts/${id}/credit`, { amountUsd, reason: 'paid' })

test('warns at 24, 6 and 1 hours of runway, once each, and again after a payment', async () => {
  // Slightly more than 25 hours.
  const ada = await journey.account({ usd: '62.30' })
  const { id } = await journey.rentVirtualMachine(ada.call)
  const warned = async (): Promise<number[]> => {
    const { events } = await succeed(ada.call, 'GET', '/v2/events?type=balance.runway_low')
    return (events as Array<{ data: { hours: number } }>).map((event) => event.data.hours).toReversed()
  }
  expect(await warned()).toEqual([])
  await journey.advanceBy(HOUR_MS, 2)
  expect(await warned()).toEqual([24])
  await journey.advanceBy(2 * HOUR_MS, 9)
  expect(await warned()).toEqual([24, 6])
  await journey.advanceBy(2 * HOUR_MS, 2)
  expect(await warned()).toEqual([24, 6])
  await journey.advance(HOUR_MS / 2)
  expect(await warned()).toEqual([24, 6, 1])
  await credit(ada.id, '100')
  await journey.pass()
  await credit(ada.id, '0.01')
  await journey.advanceBy(8 * HOUR_MS, 3)
  expect(await warned()).toEqual([24, 6, 1, 24])
  await end(ada.call, id)
})

test.each([
  ['every twenty minutes', 20 * MINUTE_MS, 13],
  ['once, hours late', 9 * HOUR_MS, 1],
])('a meter that runs %s ends a rental at the exact millisecond its money runs out', async (_, stepMs, steps) => {
  const ada = await journey.account({ usd: '10' })
  const started = await journey.rentVirtualMachine(ada.call)
  expect(started).toMatchObject({ status: 'Running', startedAt: journey.now() })
  await journey.advanceBy(stepMs, steps)
  const span = spanAffordable(PRICE, usd('10'))
  const ended = await detail(ada.call, started.id)
  expect(ended).toMatchObject({
    status: 'Terminated',
    statusReason: 'balance_empty',
    terminateRequestedAt: after(started.startedAt, span),
    costSoFarUsd: formatUsd(costOfSpan(PRICE, span)),
  })
  expect(await chargedFor(ada.call, { rentalId: started.id })).toBe(costOfSpan(PRICE, span))
  // The rest would not pay for another millisecond, and stays the customer's.
  expect(await balanceOf(ada.call)).toBe(usd('10') - costOfSpan(PRICE, span))
  expect(await balanceOf(ada.call)).toBeLessThan(costOfSpan(PRICE, 1) + 1n)
  expect(await eventTypesOf(ada.call, `balance:${ada.id}`)).toContain('balance.empty')
})

test('two rentals share one balance, which ends both and never falls below zero', async () => {
  const ada = await journey.account({ usd: '10' })
  const first = await journey.rentVirtualMachine(ada.call)
  const second = await journey.rentVirtualMachine(ada.call)
  await journey.advanceBy(20 * MINUTE_MS, 7)
  const paid =
    (await chargedFor(ada.call, { rentalId: first.id })) + (await chargedFor(ada.call, { rentalId: second.id }))
  expect((await balanceOf(ada.call)) + paid).toBe(usd('10'))
  expect(await balanceOf(ada.call)).toBeLessThan(2n * (costOfSpan(PRICE, 1) + 1n))
  for (const { id } of [first, second]) expect(await detail(ada.call, id)).toMatchObject({ status: 'Terminated' })
})

test('a spending limit ends its rental, also when lowered below the current cost', async () => {
  const ada = await journey.account({ usd: '100' })
  const limited = await journey.rentVirtualMachine(ada.call, { spendingLimitUsd: '1' })
  const other = await journey.rentVirtualMachine(ada.call)
  await journey.advance(2 * HOUR_MS)
  const span = spanAffordable(PRICE, usd('1'))
  expect(await detail(ada.call, limited.id)).toMatchObject({
    status: 'Terminated',
    statusReason: 'spending_limit',
    terminateRequestedAt: after(limited.startedAt, span),
  })
  expect(await chargedFor(ada.call, { rentalId: limited.id })).toBe(costOfSpan(PRICE, span))
  expect(await detail(ada.call, other.id)).toMatchObject({ status: 'Running' })
  await succeed(ada.call, 'PATCH', `/v2/rentals/${other.id}`, { spendingLimitUsd: '0.5' })
  await journey.pass()
  expect(await detail(ada.call, other.id)).toMatchObject({ status: 'Terminated', terminateRequestedAt: journey.now() })
  expect(await chargedFor(ada.call, { rentalId: other.id })).toBe(costOfSpan(PRICE, 2 * HOUR_MS))
})

test("a key's limit counts what its rentals have set aside, and ends them when it is spent", async () => {
  const ada = await journey.account({ usd: '100' })
  const scopes = ['compute:read', 'compute:write']
  const key = await succeed(ada.call, 'POST', '/v2/api-keys', { name: 'intern', scopes, totalLimitUsd: '3' })
  const intern = journey.as(key.key)
  const started = await journey.rentVirtualMachine(intern)
  const second = await intern('POST', path, { gpuCount: 1, region: 'mock-region' })
  expect([second.status, second.body.reason]).toEqual([403, 'key_spending_limit'])
  await journey.advanceBy(HOUR_MS, 2)
  const ended = await detail(intern, started.id)
  const span = spanAffordable(PRICE, usd('3'))
  expect(ended).toMatchObject({ status: 'Terminated', statusReason: 'spending_limit' })
  expect(ended.terminateRequestedAt).toBe(after(started.startedAt, span))
  // Another key of the same account is not limited.
  const mine = await journey.rentVirtualMachine(ada.call)
  expect(mine.status).toBe('Running')
  await end(ada.call, mine.id)
})

test('a key’s monthly limit resets with the month', async () => {
  const ada = await journey.account({ usd: '100' })
  journey.clock.set((Date.UTC(2026, 0, 31, 22) - 1_000) as ReturnType<typeof journey.clock.now>)
  const scopes = ['compute:read', 'compute:write']
  const key = await succeed(ada.call, 'POST', '/v2/api-keys', { name: 'monthly', scopes, monthlyLimitUsd: '5' })
  const started = await journey.rentVirtualMachine(journey.as(key.key))
  expect(started.startedAt).toBe('2026-01-31T22:00:00.000Z')
  await journey.advance(2 * HOUR_MS - 1)
  await journey.advanceBy(HOUR_MS, 3)
  const january = costOfSpan(PRICE, 2 * HOUR_MS - 1)
  const span = spanAffordable(PRICE, (january + usd('5')) as NanoUsd)
  expect(await detail(ada.call, started.id)).toMatchObject({
    status: 'Terminated',
    statusReason: 'spending_limit',
    terminateRequestedAt: after(started.startedAt, span),
  })
})

test('autoTerminateAt ends a rental at that time, however late the server checks', async () => {
  const ada = await journey.account({ usd: '100' })
  const autoTerminateAt = after(journey.now(), HOUR_MS)
  const started = await journey.rentVirtualMachine(ada.call, { autoTerminateAt })
  await journey.advance(5 * HOUR_MS)
  expect(await detail(ada.call, started.id)).toMatchObject({
    status: 'Terminated',
    statusReason: 'auto_terminate',
    terminateRequestedAt: autoTerminateAt,
  })
  const span = Date.parse(autoTerminateAt) - Date.parse(started.startedAt)
  expect(await chargedFor(ada.call, { rentalId: started.id })).toBe(costOfSpan(PRICE, span))
})

test('refunds no more than was paid, once', async () => {
  const ada = await journey.account({ usd: '100' })
  const { id } = await journey.rentVirtualMachine(ada.call)
  await journey.advance(2 * HOUR_MS)
  await end(ada.call, id)
  const refund = (amountUsd: string, headers = {}) =>
    journey.operator(
      'POST',
      `/v2/operator/accounts/${ada.id}/refund`,
      { amountUsd, rentalId: id, reason: 'faulty' },
      headers,
    )
  const tooMuch = await refund('4.980000001')
  expect([tooMuch.status, tooMuch.body.reason]).toEqual([400, 'refund_too_large'])
  for (const replayed of [false, true]) {
    const reply = await refund('4', { 'Idempotency-Key': 'refund-1' })
    expect(reply.body).toMatchObject({ replayed, availableUsd: '99.020000000' })
  }
  expect((await refund('0.99')).body.reason).toBe('refund_too_large')
  expect((await refund('0.98')).body).toMatchObject({ availableUsd: '100.000000000' })
  const { lines } = await succeed(ada.call, 'GET', '/v2/customer/statement')
  expect(lines[0]).toMatchObject({ kind: 'refund', amountUsd: '0.980000000', reason: 'faulty', rentalId: id })
})

test('the ledger is consistent afterwards', async () => {
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

test("a key's limit counts volumes, and a volume it no longer covers is suspended", async () => {
  const ada = await journey.account({ usd: '100' })
  const limited = await succeed(ada.call, 'POST', '/v2/api-keys', {
    name: 'limited',
    scopes: ['compute:read', 'compute:write'],
    totalLimitUsd: '0.1',
  })
  const byKey = journey.as(limited.key as string)
  const path = '/v2/alpha/on-demand/storage-volumes'
  const large = await byKey('POST', path, { region: 'us-central-1', label: 'too-large', sizeInGb: 63_744 })
  expect([large.status, large.body.reason]).toEqual([403, 'key_spending_limit'])
  await succeed(byKey, 'POST', path, { region: 'us-central-1', label: 'small-one', sizeInGb: 512 })
  await journey.advanceBy(20 * MINUTE_MS, 9)
  const [volume] = await succeed(byKey, 'GET', path)
  expect(volume).toMatchObject({ status: 'inactive', meta: { termination_reason: 'spending_limit' } })
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})
