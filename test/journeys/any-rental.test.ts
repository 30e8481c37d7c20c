/** Rentals of every kind through one noun: the same fields, and costs that add up to the spend of the account. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HOUR_MS } from '../../src/base/instant.ts'
import { formatUsd, sumUsd, usd } from '../../src/base/money.ts'
import { LIST_LAG_MS, startJourney, succeed, type Journey } from '../harness/journey.ts'
import type { Reply } from '../harness/exchange.ts'

const NODE = { cluster_name: 'mock-sin', node_name: 'mock-sin-a100-01', gpu_count: 1 }

let journey: Journey
beforeAll(async () => {
  journey = await startJourney()
})
afterAll(() => journey.close())

test('a rental of any kind is found by its id and by its name (issue 31, 17)', async () => {
  const ada = await journey.account({ usd: '500' })
  const { instance_id: name } = await succeed(ada.call, 'POST', '/v1/marketplace/instances/create', NODE)
  const vm = await journey.rentVirtualMachine(ada.call, { gpuCount: 1 })
  const metal = await succeed(ada.call, 'POST', '/v2/alpha/on-demand/bare-metal-rentals', {
    networkType: 'infiniband',
    gpuCount: 8,
  })
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
  const { rentals } = await succeed(ada.call, 'GET', '/v2/rentals')
  const kinds = rentals.map((one: Reply['body']) => [one.kind, one.state])
  expect(kinds).toEqual([
    ['bare-metal', 'Running'],
    ['virtual-machine', 'Running'],
    ['container', 'Running'],
  ])
  for (const listed of rentals) {
    const byId = await succeed(ada.call, 'GET', `/v2/rentals/${listed.id}`)
    expect(byId).toMatchObject(listed)
    expect(await succeed(ada.call, 'GET', `/v2/rentals/${listed.name}`)).toEqual(byId)
    expect(byId.events.at(-1).type).toBe('rental.created')
  }
  expect(rentals.map((one: Reply['body']) => one.id).slice(0, 2)).toEqual([metal.id, vm.id])
  expect(rentals[2]).toMatchObject({ name, machines: [{ id: NODE.node_name, gpuCount: 1 }], gpuCount: 1 })

  const ben = await journey.account({ usd: '1' })
  const foreign = await ben.call('GET', `/v2/rentals/${rentals[2].id}`)
  expect([foreign.status, foreign.body.reason]).toEqual([404, 'rental_not_found'])

  await succeed(ada.call, 'POST', '/v1/marketplace/instances/terminate', { id: name })
  await journey.pass()
  await journey.advance(HOUR_MS)
  const first = await succeed(ada.call, 'GET', '/v2/rentals?limit=1')
  expect(first.rentals.map((one: Reply['body']) => one.id)).toEqual([metal.id])
  const next = await succeed(ada.call, 'GET', `/v2/rentals?limit=1&cursor=${first.nextCursor}`)
  expect([next.rentals[0].id, next.nextCursor]).toEqual([vm.id, null])
  const ended = await succeed(ada.call, 'GET', '/v2/rentals?ended=true')
  expect(ended.rentals).toMatchObject([{ name, state: 'Terminated', currentCostPerHourUsd: '0.000000000' }])
})

test('what rentals cost now adds up to the hourly spend: the disk of a stopped one, nothing of one that starts (issue 31, 10)', async () => {
  const ada = await journey.account({ usd: '500' })
  const stopped = await succeed(ada.call, 'POST', '/v1/marketplace/instances/create', NODE)
  await journey.rentVirtualMachine(ada.call, { gpuCount: 2 })
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
  await succeed(ada.call, 'POST', `/v2/alpha/on-demand/rentals/${stopped.instance_id}/stop`)
  await journey.pass()
  await journey.advance(HOUR_MS)
  await succeed(ada.call, 'POST', '/v1/marketplace/instances/create', NODE)
  const { rentals } = await succeed(ada.call, 'GET', '/v2/rentals')
  const now = rentals.map((one: Reply['body']) => [one.state, one.currentCostPerHourUsd])
  // Two H100 at $2.49, and 50 GB at $0.10 in 730 hours.
  expect(now).toEqual([
    ['Pending', '0.000000000'],
    ['Running', '4.980000000'],
    ['Stopped', '0.006849315'],
  ])
  const { hourlySpendUsd } = await succeed(ada.call, 'GET', '/v2/customer/balance')
  const perHour: string[] = rentals.map((one: Reply['body']) => one.currentCostPerHourUsd)
  expect(formatUsd(sumUsd(perHour.map(usd)))).toBe(hourlySpendUsd)
  for (const { id, costSoFarUsd } of rentals) {
    expect((await succeed(ada.call, 'GET', `/v2/rentals/${id}`)).costSoFarUsd).toBe(costSoFarUsd)
  }
})
