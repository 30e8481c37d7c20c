/** The operator's summary: money of all accounts, and counts that agree with the lists. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { succeed } from '../../../test/harness/journey.ts'
import { testServer, testSshKey, type TestServer } from '../../../test/harness/server.ts'
import { parseUsd } from '../../base/money.ts'

let server: TestServer

beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server.close())

const read = () => succeed(server.operator, 'GET', '/v2/operator/summary')

test('counts rentals and GPUs, and adds up balances, holds, payments and charges', async () => {
  const before = await read()
  const { call } = await server.account({ usd: '100' })
  const added = (now: Awaited<ReturnType<typeof read>>, name: string): bigint =>
    (parseUsd(now.money[name]) ?? 0n) - (parseUsd(before.money[name]) ?? 0n)
  const paid = await read()
  expect(added(paid, 'balancesUsd')).toBe(100_000_000_000n)
  expect(added(paid, 'paidInTodayUsd')).toBe(100_000_000_000n)
  await succeed(call, 'POST', '/v2/ssh-keys', { name: 'laptop', publicKey: testSshKey })
  await succeed(call, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals', { gpuCount: 1, region: 'mock-region' })
  const rented = await read()
  expect(rented.rentals.running + rented.rentals.starting).toBe(before.rentals.running + before.rentals.starting + 1)
  expect(rented.gpus.rented).toBe(before.gpus.rented + 1)
  // An hour is held; nothing is lost on the way.
  expect(added(rented, 'heldUsd')).toBeGreaterThan(0n)
  expect(added(rented, 'balancesUsd') + added(rented, 'chargedTodayUsd')).toBe(100_000_000_000n)
  expect(added(rented, 'chargedThisMonthUsd')).toBe(added(rented, 'chargedTodayUsd'))
})
