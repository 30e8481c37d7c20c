/** The operator's summary: money of all accounts, and counts that agree with the lists. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { succeed } from '../../../test/harness/journey.ts'
import { testServer, testSshKey, type TestServer } from '../../../test/harness/server.ts'
import { waitFor } from '../../../test/harness/wait.ts'
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

test('adds up the revenue by day, what runs per hour and the GPUs by model, and agrees with the other lists', async () => {
  const revenue = await succeed(server.operator, 'GET', '/v2/operator/revenue?days=3')
  expect(revenue.days).toHaveLength(3)
  const summary = await read()
  const nano = (text: string): bigint => parseUsd(text) ?? 0n
  const today = revenue.days.at(-1)
  expect(nano(today.machinesUsd) + nano(today.storageUsd) + nano(today.modelsUsd)).toBe(
    nano((await read()).money.chargedTodayUsd),
  )
  const { call } = await server.account({ usd: '100', sshKey: true })
  const order = { gpuCount: 1, region: 'mock-region' }
  const { id } = await succeed(call, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals', order)
  await waitFor('it to be charged', async () => {
    const { hourlySpendUsd } = await succeed(call, 'GET', '/v2/customer/balance')
    const { runRatePerHourUsd } = await succeed(server.operator, 'GET', '/v2/operator/revenue')
    return nano(hourlySpendUsd) > 0n && nano(runRatePerHourUsd) >= nano(hourlySpendUsd)
  })
  const total = (of: 'total' | 'rented' | 'faulty'): number =>
    (summary.gpuModels as Array<Record<'total' | 'rented' | 'faulty', number>>).reduce((sum, one) => sum + one[of], 0)
  expect([total('total'), total('rented'), total('faulty')]).toEqual([
    summary.gpus.total,
    summary.gpus.rented,
    summary.gpus.faulty,
  ])
  await succeed(call, 'DELETE', `/v2/rentals/${id}`)
  await waitFor('a charge', async () => {
    return (await succeed(server.operator, 'GET', '/v2/operator/revenue')).payingAccounts > 0
  })
})
