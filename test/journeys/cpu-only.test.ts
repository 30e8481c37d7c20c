/**
 * A start without GPUs when they are taken (`ifNoGpu: "cpuOnly"`), on the simulated engine, to the nano-dollar and the
 * millisecond, on a clock the test controls.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS } from '../../src/base/instant.ts'
import { costOfSpan, formatUsd, usd, type NanoUsd } from '../../src/base/money.ts'
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

/** Machines of a supplier with one GPU and with four. */
const ONE_GPU = { cluster_name: 'mock-sin', node_name: 'mock-sin-rtx3090-01' }
const FOUR_GPUS = { cluster_name: 'mock-sin', node_name: 'mock-sin-a100-01' }
const DISK = { diskGb: 50 }

let journey: Journey
beforeAll(async () => {
  journey = await startJourney()
})
afterAll(() => journey.close())

const instance = (by: Call, id: string) => succeed(by, 'GET', `/v2/rentals/${id}`)
const power = (by: Call, id: string, act: 'stop' | 'start', body: object = {}): Promise<Reply> =>
  by('POST', `/v2/rentals/${id}/${act}`, act === 'start' ? body : undefined)
const millis = (from: string, to: string): number => Date.parse(to) - Date.parse(from)

async function rent(by: Call, node: object, more: object = {}): Promise<Reply['body']> {
  const order = { ...node, gpu_count: 1, ...DISK, ...more }
  const { instance_id } = await succeed(by, 'POST', '/v1/marketplace/instances/create', order)
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
  return instance(by, instance_id)
}

async function act(by: Call, id: string, what: 'stop' | 'start', body?: object): Promise<Reply['body']> {
  const reply = await power(by, id, what, body)
  expect([what, reply.status, reply.body]).toEqual([what, 200, reply.body])
  await journey.pass()
  return reply.body
}

async function end(by: Call, ...names: string[]): Promise<void> {
  for (const id of names) await succeed(by, 'POST', '/v1/marketplace/instances/terminate', { id })
  await journey.pass()
  await journey.advance(MINUTE_MS)
}

async function claimsOf(rentalId: number): Promise<number> {
  const { db } = journey.app.database
  return (await db.selectFrom('gpu_claim').select('gpu_index').where('rental_id', '=', rentalId).execute()).length
}

async function segmentsOf(rentalId: number) {
  const { db } = journey.app.database
  return db.selectFrom('segment').selectAll().where('rental_id', '=', rentalId).orderBy('started_at').execute()
}

test('cpuOnly starts a rental whose GPU is taken, charges its CPUs and its disk to the nano-dollar, and gives it its GPU back after a stop (promise 6; issue 31, 16)', async () => {
  const ada = await journey.account({ usd: '40' })
  const ben = await journey.account({ usd: '40' })
  const made = await rent(ada.call, ONE_GPU)
  const gpuPrice = usd(made.pricePerHourUsd)
  const diskPrice = usd(made.stoppedCostPerHourUsd)
  const cpuPrice = (diskPrice + 2n * usd('0.02')) as NanoUsd
  expect(made).toMatchObject({ cpuOnly: false, cpuOnlyCostPerHourUsd: formatUsd(cpuPrice) })
  await act(ada.call, made.name, 'stop')
  const stoppedAt = journey.now()
  const other = await rent(ben.call, ONE_GPU)
  const refused = await power(ada.call, made.name, 'start')
  expect([refused.body.reason, refused.body.message]).toEqual(['no_gpu_on_host', expect.stringContaining('`cpuOnly`')])

  await journey.advance(HOUR_MS)
  const starting = await act(ada.call, made.name, 'start', { ifNoGpu: 'cpuOnly' })
  expect(starting).toMatchObject({
    state: 'Starting',
    cpuOnly: true,
    cpuOnlyCostPerHourUsd: formatUsd(cpuPrice),
    pricePerHourUsd: formatUsd(gpuPrice),
  })
  const runningAt = journey.now()
  const running = await instance(ada.call, made.name)
  expect(running).toMatchObject({ state: 'Running', cpuOnly: true, resources: { cpuCount: 2, ramGb: 4 } })
  expect(running.resources.storageGb).toBe(made.resources.storageGb)
  expect(await claimsOf(made.id)).toBe(0)
  expect(await checkLedgerAndEngines(journey)).toEqual([])

  const repeated = await power(ada.call, made.name, 'start', { ifNoGpu: 'cpuOnly' })
  expect([repeated.status, repeated.body.cpuOnly]).toEqual([200, true])
  const withGpu = await power(ada.call, made.name, 'start')
  expect([withGpu.status, withGpu.body.reason]).toEqual([400, 'runs_without_gpus'])

  await journey.advance(3 * HOUR_MS)
  await act(ada.call, made.name, 'stop')
  const offAt = journey.now()
  expect(await instance(ada.call, made.name)).toMatchObject({ state: 'Stopped', cpuOnly: false })
  await end(ben.call, other.name)
  await act(ada.call, made.name, 'start', { ifNoGpu: 'cpuOnly' })
  const backAt = journey.now()
  expect(await instance(ada.call, made.name)).toMatchObject({
    state: 'Running',
    cpuOnly: false,
    resources: made.resources,
  })
  expect(await claimsOf(made.id)).toBe(1)
  await journey.advance(HOUR_MS)
  await end(ada.call, made.name)

  const segments = await segmentsOf(made.id)
  const expected = [
    [false, false, costOfSpan(gpuPrice, millis(made.startedAt, stoppedAt))],
    [true, false, costOfSpan(diskPrice, millis(stoppedAt, runningAt))],
    [false, true, costOfSpan(cpuPrice, millis(runningAt, offAt))],
    [true, false, costOfSpan(diskPrice, millis(offAt, backAt))],
    [false, false, costOfSpan(gpuPrice, HOUR_MS)],
  ]
  expect(segments.map((one) => [one.while_stopped, one.without_gpus, one.settled_nano])).toEqual(expected)
  expect(segments.slice(1).map((one) => one.started_at)).toEqual(segments.slice(0, -1).map((one) => one.ended_at))
  const total = expected.reduce((sum, [, , cost]) => sum + (cost as bigint), 0n)
  expect(await chargedFor(ada.call, { rentalId: made.id })).toBe(total)
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

test('a rental without its GPUs counts neither against the quota nor as sold GPU time, and its hold is that of its CPUs (issue 31, 16)', async () => {
  const ada = await journey.account({ usd: '3' })
  const ben = await journey.account({ usd: '40' })
  const made = await rent(ada.call, ONE_GPU)
  await act(ada.call, made.name, 'stop')
  const other = await rent(ben.call, ONE_GPU)
  const quota = { gpus: 1 }
  await succeed(journey.operator, 'PATCH', `/v2/operator/accounts/${ada.id}`, { quota, reason: 'small' })
  await act(ada.call, made.name, 'start', { ifNoGpu: 'cpuOnly' })
  const hold = await journey.app.database.db
    .selectFrom('hold')
    .select('amount_nano')
    .where('key', '=', `rental:${made.id}`)
    .executeTakeFirstOrThrow()
  expect(hold.amount_nano).toBeLessThan(usd(made.pricePerHourUsd))
  const second = await rent(ada.call, FOUR_GPUS)
  expect(second.state).toBe('Running')
  await act(ada.call, second.name, 'stop')
  await end(ada.call, second.name, made.name)
  await end(ben.call, other.name)
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

test('a host runs as many rentals without GPUs as it has GPUs, and a terminated one makes room (issue 31, 16)', async () => {
  const ada = await journey.account({ usd: '40' })
  const first = await rent(ada.call, ONE_GPU)
  await act(ada.call, first.name, 'stop')
  const second = await rent(ada.call, ONE_GPU)
  await act(ada.call, second.name, 'stop')
  const third = await rent(ada.call, ONE_GPU)
  await act(ada.call, first.name, 'start', { ifNoGpu: 'cpuOnly' })
  const refused = await power(ada.call, second.name, 'start', { ifNoGpu: 'cpuOnly' })
  expect([refused.status, refused.body.reason]).toEqual([400, 'no_room_without_gpus'])
  await end(ada.call, first.name)
  await act(ada.call, second.name, 'start', { ifNoGpu: 'cpuOnly' })
  expect(await instance(ada.call, second.name)).toMatchObject({ state: 'Running', cpuOnly: true })
  await end(ada.call, second.name, third.name)
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

test('a start without GPUs that fails leads back to Stopped, and the next one has its GPU (issue 31, 16)', async () => {
  const ada = await journey.account({ usd: '40' })
  const ben = await journey.account({ usd: '40' })
  const made = await rent(ada.call, ONE_GPU, { label: 'fault-start-fails' })
  await act(ada.call, made.name, 'stop')
  const other = await rent(ben.call, ONE_GPU)
  await act(ada.call, made.name, 'start', { ifNoGpu: 'cpuOnly' })
  await journey.advanceBy(MINUTE_MS, 2)
  expect(await instance(ada.call, made.name)).toMatchObject({ state: 'Stopped', cpuOnly: false })
  await end(ben.call, other.name)
  const again = await power(ada.call, made.name, 'start')
  expect(again.body).toMatchObject({ state: 'Starting', cpuOnly: false })
  expect(await claimsOf(made.id)).toBe(1)
  await end(ada.call, made.name)
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})
