/**
 * Orders on an engine that sells offers instead of machines, through the whole server: missing capacity, offers that
 * cost too much, sell out, go stale and come back. Nothing is sold twice, and prices hold.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { MINUTE_MS } from '../../src/base/instant.ts'
import { inventoryOf } from '../../src/reconcile/inventory.ts'
import {
  chargedFor,
  eventTypesOf,
  LIST_LAG_MS,
  checkLedgerAndEngines,
  startJourney,
  succeed,
  type Journey,
} from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

const path = '/v2/alpha/on-demand/virtual-machine-rentals'
const twoH100 = { gpuCount: 2, gpuType: 'h100', networkType: 'ethernet', region: 'us-east-1' }
const bootMs = 20_000

let journey: Journey
let ada: Call

beforeAll(async () => {
  journey = await startJourney({ env: { BERTH_MOCK_OFFERS: 'true', BERTH_MOCK_BOOT_MS: '0' } })
  ada = (await journey.account({ usd: '1000', sshKey: true })).call
})
afterAll(() => journey.close())

async function available(gpuType: string, connectionType: string, gpuCount: number): Promise<number | undefined> {
  await journey.advance(MINUTE_MS)
  const options = await succeed(ada, 'GET', '/v2/alpha/on-demand/rental-options')
  return (options as Option[]).find(
    (one) =>
      one.machineType === 'virtual-machine' &&
      one.region === 'us-east-1' &&
      one.gpuType === gpuType &&
      one.connectionType === connectionType &&
      one.gpuCount === gpuCount,
  )?.totalAvailable
}

interface Option {
  readonly machineType: string
  readonly region: string
  readonly gpuType: string
  readonly connectionType: string
  readonly gpuCount: number
  readonly totalAvailable: number
}

describe('an order of two H100', () => {
  let id: number

  test('goes to the next offer when the cheapest has no capacity, at the order’s price', async () => {
    const rental = await succeed(ada, 'POST', path, twoH100)
    id = rental.id
    const first = await journey.app.database.db
      .selectFrom('rental')
      .select('spec')
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    expect(first.spec.nodes).toMatchObject([{ machineId: 'mock-cloud-h100x2-spot.1' }])
    await journey.pass()
    await journey.advance(LIST_LAG_MS + bootMs)
    const running = await succeed(ada, 'GET', `/v2/alpha/on-demand/rentals/${id}`)
    expect(running).toMatchObject({ status: 'Running', currentTerm: { costPerHour: 4.98 }, gpuCount: 2 })
    const moved = await journey.app.database.db
      .selectFrom('rental')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow()
    expect(moved.spec.nodes).toMatchObject([{ machineId: 'mock-cloud-h100x2.1', gpuIndexes: [0, 1] }])
    expect(moved.refused_by).toEqual(['mock-cloud-h100x2-spot'])
    expect(await eventTypesOf(ada, `rental:${id}`)).toEqual(['rental.created', 'rental.running'])
  })

  test('counts against its offer; indivisible or overpriced offers are not options', async () => {
    // One of two units is left, plus two of the offer without a count.
    expect(await available('h100', 'ethernet', 2)).toBe(3)
    expect(await available('h100', 'ethernet', 1)).toBeUndefined()
    const { rejected } = await succeed(journey.operator, 'POST', '/v2/operator/placement', {
      machineType: 'virtual-machine',
      ...twoH100,
    })
    const dear = (rejected as Array<{ machineId: string; reason: string }>).filter(
      ({ reason }) => reason === 'costs_too_much',
    )
    expect(dear.map(({ machineId }) => machineId)).toContain('mock-cloud-h100x2-premium.1')
  })

  test('fails without a charge when no offer has capacity', async () => {
    const [second, third] = [await succeed(ada, 'POST', path, twoH100), await succeed(ada, 'POST', path, twoH100)]
    await journey.pass()
    await journey.advance(LIST_LAG_MS + bootMs)
    const statuses = await Promise.all(
      [second, third].map(async (one) => succeed(ada, 'GET', `/v2/alpha/on-demand/rentals/${one.id}`)),
    )
    // Either of the two may get the last unit.
    const failed = statuses.find(({ status }) => status === 'Failed')
    expect(new Set(statuses.map(({ status }) => status))).toEqual(new Set(['Failed', 'Running']))
    expect(failed.statusReason).toBe('no_capacity')
    expect(await chargedFor(ada, { rentalId: failed.id })).toBe(0n)
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })

  test('returns its unit at the end', async () => {
    expect(await available('h100', 'ethernet', 2)).toBe(2)
    await succeed(ada, 'POST', `${path}/terminate`, { rentalId: id })
    await journey.pass()
    await journey.advance(MINUTE_MS)
    expect(await available('h100', 'ethernet', 2)).toBe(3)
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })
})

test('rents a node pool in parts, never more GPUs than its nodes have', async () => {
  const order = { gpuCount: 4, gpuType: 'h200', networkType: 'infiniband', region: 'us-east-1' }
  const orders = [await ada('POST', path, order), await ada('POST', path, order), await ada('POST', path, order)]
  expect(orders.map(({ status }) => status)).toEqual([200, 200, 400])
  await journey.pass()
  await journey.advance(LIST_LAG_MS + bootMs)
  const rows = await journey.app.database.db.selectFrom('rental').selectAll().where('gpu_type', '=', 'h200').execute()
  expect(rows.map(({ status }) => status)).toEqual(['Running', 'Running'])
  const gpus = rows.flatMap(({ spec }) => spec.nodes.flatMap(({ gpuIndexes }) => gpuIndexes))
  expect(new Set(gpus)).toEqual(new Set([0, 1, 2, 3, 4, 5, 6, 7]))
  expect(gpus).toHaveLength(8)
})

test('sells no offers that were unconfirmed for five minutes, until they are confirmed again', async () => {
  const engine = journey.app.drivers.get('mock')
  if (engine === undefined) throw new Error('there is no simulated engine')
  const away = { ...engine, inventory: () => Promise.reject(new Error('no route to the engine')) }
  const fails = () => inventoryOf(journey.app, away, new AbortController().signal)
  const free = async () => {
    const options = await succeed(ada, 'GET', '/v2/alpha/on-demand/rental-options')
    return (options as Option[]).some(
      (one) =>
        one.region === 'us-east-1' &&
        one.gpuType === 'h100' &&
        one.connectionType === 'ethernet' &&
        one.totalAvailable > 0,
    )
  }
  await journey.advance(MINUTE_MS)
  journey.clock.advance(4 * MINUTE_MS)
  await expect(fails()).rejects.toThrow('no route')
  expect(await free()).toBe(true)
  journey.clock.advance(2 * MINUTE_MS)
  await expect(fails()).rejects.toThrow('no route')
  expect(await free()).toBe(false)
  await journey.advance(MINUTE_MS)
  expect(await free()).toBe(true)
})
