/** A start on another machine (`ifNoGpu: "move"`) on the simulated engine: what is claimed, charged and refused. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS } from '../../src/base/instant.ts'
import { costOfSpan, usd } from '../../src/base/money.ts'
import {
  chargedFor,
  checkLedgerAndEngines,
  LIST_LAG_MS,
  startJourney,
  succeed,
  type Journey,
} from '../harness/journey.ts'
import type { Reply } from '../harness/exchange.ts'
import type { Call } from '../harness/server.ts'

let journey: Journey
beforeAll(async () => {
  journey = await startJourney()
})
afterAll(() => journey.close())

const instance = (by: Call, id: string) => succeed(by, 'GET', `/v2/rentals/${id}`)
const power = (by: Call, id: string, act: 'stop' | 'start', body: object = {}): Promise<Reply> =>
  by('POST', `/v2/rentals/${id}/${act}`, act === 'start' ? body : undefined)
const millis = (from: string, to: string): number => Date.parse(to) - Date.parse(from)

interface Listed {
  readonly id: string
  readonly cluster_name: string
}

/** Two equal machines of one supplier, with four GPUs. */
const home: Listed = { id: 'mock-sin-a100-01', cluster_name: 'mock-sin' }
const other: Listed = { id: 'mock-sin-a100-02', cluster_name: 'mock-sin' }

async function rent(by: Call, machine: Listed, more: object = {}): Promise<Reply['body']> {
  const { id: node_name, cluster_name } = machine
  const order = { node_name, cluster_name, gpu_count: 4, diskGb: 50, ...more }
  const { instance_id } = await succeed(by, 'POST', '/v1/marketplace/instances/create', order)
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
  return instance(by, instance_id)
}

async function stop(by: Call, id: string): Promise<void> {
  expect((await power(by, id, 'stop')).status).toBe(200)
  await journey.pass()
}

async function end(by: Call, ...names: string[]): Promise<void> {
  for (const id of names) await succeed(by, 'POST', '/v1/marketplace/instances/terminate', { id })
  await journey.pass()
  await journey.advance(MINUTE_MS)
}

async function claimedOn(rentalId: number): Promise<string[]> {
  const { db } = journey.app.database
  const rows = await db.selectFrom('gpu_claim').select('machine_id').where('rental_id', '=', rentalId).execute()
  return [...new Set(rows.map((row) => row.machine_id))]
}

test('a rental moves to a free machine of its supplier at its price, and has its disk on both until it runs (promise 7; issue 31, 16)', async () => {
  const ada = await journey.account({ usd: '1000' })
  const ben = await journey.account({ usd: '1000' })
  const made = await rent(ada.call, home)
  await stop(ada.call, made.name)
  const stoppedAt = journey.now()
  const taken = await rent(ben.call, home)
  await journey.advance(HOUR_MS)
  const moving = await power(ada.call, made.name, 'start', { ifNoGpu: 'move' })
  expect([moving.status, moving.body.state, moving.body.movesTo]).toEqual([200, 'Starting', other.id])
  expect(await claimedOn(made.id)).toEqual([other.id])
  // Its disk takes space on both machines, which this check recounts.
  expect(await checkLedgerAndEngines(journey)).toEqual([])
  await journey.pass()
  const runningAt = journey.now()
  const moved = await instance(ada.call, made.name)
  expect(moved).toMatchObject({
    state: 'Running',
    id: made.id,
    pricePerHourUsd: made.pricePerHourUsd,
    machines: [{ id: other.id }],
    clusterName: other.cluster_name,
  })
  await journey.advance(HOUR_MS)
  await end(ada.call, made.name)
  const [gpus, disk] = [usd(made.pricePerHourUsd), usd(made.stoppedCostPerHourUsd)]
  expect(await chargedFor(ada.call, { rentalId: made.id })).toBe(
    costOfSpan(gpus, millis(made.startedAt, stoppedAt)) +
      costOfSpan(disk, millis(stoppedAt, runningAt)) +
      costOfSpan(gpus, HOUR_MS),
  )
  await end(ben.call, taken.name)
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

test('a move that fails leads back to Stopped on the old machine, and frees the GPUs of the other (issue 31, 16)', async () => {
  const ada = await journey.account({ usd: '1000' })
  const ben = await journey.account({ usd: '1000' })
  const made = await rent(ada.call, home, { label: 'fault-start-fails' })
  await stop(ada.call, made.name)
  const taken = await rent(ben.call, home)
  const moving = await power(ada.call, made.name, 'start', { ifNoGpu: 'move' })
  expect(moving.body.movesTo).toBe(other.id)
  await journey.pass()
  await journey.advanceBy(MINUTE_MS, 2)
  expect(await instance(ada.call, made.name)).toMatchObject({
    state: 'Stopped',
    statusReason: 'boot_failed',
    machines: [{ id: home.id }],
    clusterName: home.cluster_name,
  })
  expect(await claimedOn(made.id)).toEqual([])
  await end(ben.call, taken.name)
  await end(ada.call, made.name)
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

test('without a free machine the answer says so, and nothing changes (issue 31, 16)', async () => {
  const ada = await journey.account({ usd: '2000' })
  const ben = await journey.account({ usd: '2000' })
  const made = await rent(ada.call, home)
  await stop(ada.call, made.name)
  const taken = [await rent(ben.call, home), await rent(ben.call, other)]
  const refused = await power(ada.call, made.name, 'start', { ifNoGpu: 'move' })
  expect([refused.status, refused.body.reason]).toEqual([400, 'no_gpu_elsewhere'])
  expect(await instance(ada.call, made.name)).toMatchObject({ state: 'Stopped' })
  await end(ben.call, ...taken.map(({ name }) => name))
  await end(ada.call, made.name)
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})
