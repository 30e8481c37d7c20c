/** More orders than capacity: capacity is sold exactly once, the rest are refused, and money and GPUs add up. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { checkLedgerAndEngines, startJourney, succeed, type Journey } from '../harness/journey.ts'
import type { Reply } from '../harness/exchange.ts'
import type { Call } from '../harness/server.ts'

const CALLS = 200
const ACCOUNTS = 10

let journey: Journey
let callers: Array<{ id: string; call: Call }>
beforeAll(async () => {
  journey = await startJourney()
  callers = []
  for (let n = 0; n < ACCOUNTS; n += 1) callers.push(await journey.account({ usd: '1000' }))
})
afterAll(() => journey.close())

/** All at once, alternating between the accounts. */
function orderAllAtOnce(ask: (call: Call) => Promise<Reply>, count = CALLS): Promise<Reply[]> {
  const turns = Array.from({ length: count / ACCOUNTS }, () => callers).flat()
  return Promise.all(turns.map(({ call }) => ask(call)))
}

/** Counts responses by status and reason. */
function tally(replies: readonly Reply[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status, body } of replies) {
    const outcome = `${status} ${body.reason ?? 'ok'}`
    counts[outcome] = (counts[outcome] ?? 0) + 1
  }
  return counts
}

async function gpusInUse(machine: string): Promise<number> {
  const { machines } = await succeed(journey.operator, 'GET', '/v2/operator/machines?limit=1000')
  return machines.find((one: { id: string }) => one.id === machine).gpusInUse
}

test('200 orders for the last eight GPUs of a region: eight succeed, 192 get no_capacity', async () => {
  const path = '/v2/alpha/on-demand/virtual-machine-rentals'
  const replies = await orderAllAtOnce((call) => call('POST', path, { gpuCount: 1, region: 'eu-north-2' }))
  expect(tally(replies)).toEqual({ '200 ok': 8, '400 no_capacity': 192 })
  expect(replies.find((reply) => reply.status === 400)?.body.message).toContain(
    'in eu-north-2 for 1 × h100 with ethernet',
  )
  expect(await gpusInUse('mock-eun2-h100-01')).toBe(8)
  const options = await succeed(journey.anonymous, 'GET', '/v2/alpha/on-demand/rental-options')
  const here = options.filter(
    (one: Record<string, unknown>) => one['region'] === 'eu-north-2' && one['gpuType'] === 'h100',
  )
  expect(here.map((one: { totalAvailable: number }) => one.totalAvailable)).toEqual([0, 0, 0, 0])
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

test('200 orders for the eight GPUs of one marketplace machine', async () => {
  const node = { cluster_name: 'mock-pdx', node_name: 'mock-pdx-h100-01', gpu_count: 1 }
  const replies = await orderAllAtOnce((call) => call('POST', '/v1/marketplace/instances/create', node))
  expect(tally(replies)).toEqual({ '200 ok': 8, '400 no_capacity': 192 })
  expect(await gpusInUse('mock-pdx-h100-01')).toBe(8)
  expect(new Set(replies.flatMap((reply) => reply.body.instance_id ?? [])).size).toBe(8)
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

test('concurrent orders for whole machines of one cluster are filled completely or not at all', async () => {
  const path = '/v2/alpha/on-demand/bare-metal-rentals'
  const order = { gpuCount: 16, networkType: 'infiniband', gpuType: 'h200', region: 'uk-central-3' }
  const replies = await orderAllAtOnce((call) => call('POST', path, order), 40)
  expect(tally(replies)).toEqual({ '200 ok': 2, '400 no_capacity': 38 })
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

test('50 concurrent orders with a balance for three: three run and nothing is overdrawn', async () => {
  const poor = await journey.account({ usd: '7.47' })
  const path = '/v2/alpha/on-demand/virtual-machine-rentals'
  const order = { gpuCount: 1, region: 'mock-region' }
  const replies = await Promise.all(Array.from({ length: 50 }, () => poor.call('POST', path, order)))
  expect(tally(replies)).toEqual({ '200 ok': 3, '403 insufficient_balance': 47 })
  expect(await succeed(poor.call, 'GET', '/v2/customer/balance')).toMatchObject({
    availableUsd: '0.000000000',
    heldUsd: '7.470000000',
  })
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

test('50 concurrent orders on a key with a limit for two: two run', async () => {
  const rich = await journey.account({ usd: '1000' })
  const limited = { name: 'limited', scopes: ['compute:write'], totalLimitUsd: '6.38' }
  const { key } = await succeed(rich.call, 'POST', '/v2/api-keys', limited)
  const call = journey.as(key)
  const order = { gpuCount: 1, region: 'us-east-1', gpuType: 'h200' }
  // An H200 costs $3.19/hr.
  const replies = await Promise.all(
    Array.from({ length: 50 }, () => call('POST', '/v2/alpha/on-demand/virtual-machine-rentals', order)),
  )
  expect(tally(replies)).toEqual({ '200 ok': 2, '403 key_spending_limit': 48 })
})

test('ending and renting concurrently sells released GPUs once', async () => {
  const path = '/v2/alpha/on-demand/virtual-machine-rentals'
  const running: Array<{ id: number; call: Call }> = []
  for (const { call } of callers) {
    const rentals: Array<{ id: number; region: string }> = await succeed(call, 'GET', path)
    running.push(...rentals.filter((one) => one.region === 'eu-north-2').map(({ id }) => ({ id, call })))
  }
  expect(running).toHaveLength(8)
  const wanting = orderAllAtOnce((call) => call('POST', path, { gpuCount: 1, region: 'eu-north-2' }), 40)
  const ending = running.map(({ id, call }) => call('POST', `${path}/terminate`, { rentalId: id }))
  const ended = await Promise.all(ending)
  expect(ended.map((reply) => reply.status)).toEqual(running.map(() => 200))
  const rented = (await wanting).filter((reply) => reply.status === 200)
  expect(await gpusInUse('mock-eun2-h100-01')).toBe(rented.length)
  await journey.pass()
  await journey.advance(1_000)
  expect(await gpusInUse('mock-eun2-h100-01')).toBe(rented.length)
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})
