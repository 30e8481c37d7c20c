/**
 * Metrics from a host's message to the customer's chart: who may report what, what survives a restart of the server, and
 * what is kept for how long.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addMs, DAY_MS, formatInstant, HOUR_MS, instantOf, MINUTE_MS } from '../src/base/instant.ts'
import { summarizeMetrics } from '../src/reconcile/summarize-metrics.ts'
import { applyRetention } from '../src/reconcile/retention.ts'
import { defaultRetention } from '../src/domain/retention.ts'
import { manualClock } from './sim/clock.ts'
import { testDatabase, type TestDatabase } from './harness/database.ts'
import { hostUse, insertMeasuredRental, workloadUse, type MeasuredRental } from './harness/measured-rental.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'

const START = instantOf(Date.UTC(2026, 0, 1, 12))
const SAMPLE_MS = 10_000
const MINUTES = 66
const clock = manualClock(START)
let database: TestDatabase
let server: TestServer
let ada: { id: string; key: string; call: Call }
let eve: { id: string; key: string; call: Call }
let own: MeasuredRental
let others: MeasuredRental

const start = (): Promise<TestServer> =>
  testServer({ databaseUrl: database.url, clock, runLoops: false, env: { BERTH_DRIVERS: 'mock,host' } })

beforeAll(async () => {
  database = await testDatabase()
  server = await start()
  ada = await server.account()
  eve = await server.account()
  own = await insertMeasuredRental(server.app, ada.id, 'host-1', [1])
  others = await insertMeasuredRental(server.app, eve.id, 'host-2')
})
afterAll(async () => {
  await server.close()
  await database.drop()
})

async function report(hostId: string, utilization: Array<number | null>, ids: string[], cpuPercent: number) {
  const { recorder } = server.app
  recorder?.take(
    hostId,
    null,
    hostUse(
      utilization,
      ids.map((id) => workloadUse(id, { cpuPercent })),
    ),
  )
  await recorder?.tick()
}

const metricsPath = (id: number | string): string => `/v2/rentals/${id}/metrics`

async function history(call: Call, id: number, query: string): Promise<Record<string, Array<number | null>>> {
  const { status, body } = await call('GET', `${metricsPath(id)}?${query}`)
  if (status !== 200) throw new Error(JSON.stringify(body))
  return Object.fromEntries(
    body.history.series.map((one: { metric: string; average: Array<number | null> }) => [one.metric, one.average]),
  )
}

test('a host reports its own workloads; what it says about others changes nothing', async () => {
  for (let n = 0; n < MINUTES * 6; n += 1) {
    // Half of each minute at 20 %, half at 60 %. GPU 0 belongs to nobody here.
    await report('host-1', [99, n % 6 < 3 ? 20 : 60], [own.workloadId], 50)
    // A hostile host: it claims a workload of another.
    if (n % 60 === 0) await report('host-2', [5], [others.workloadId, own.workloadId], 100)
    clock.advance(SAMPLE_MS)
  }
  const { body } = await ada.call('GET', metricsPath(own.rental.id))
  expect(body).toMatchObject({
    reason: null,
    simulated: false,
    gpus: [{ machineId: 'host-1', gpuIndex: 1, utilizationPercent: 60, powerWatts: 123.4 }],
    machines: [{ machineId: 'host-1', cpuPercent: 50, memoryUsedMib: 1_024, networkTxBytesPerSecond: 100 }],
  })
  expect(body.history).toBeUndefined()
  const from = formatInstant(START)
  const fine = await history(
    ada.call,
    own.rental.id,
    `from=${from}&to=${formatInstant(addMs(START, MINUTE_MS))}&step=10`,
  )
  expect(fine['gpuUtilizationPercent']).toEqual([20, 20, 20, 60, 60, 60])
  expect(fine['cpuPercent']).toEqual([50, 50, 50, 50, 50, 50])
  expect(fine['gpuPowerWatts']?.[0]).toBe(123.4)
})

test('a customer sees no metrics of another account', async () => {
  const from = formatInstant(START)
  expect((await ada.call('GET', `${metricsPath(others.rental.id)}?from=${from}`)).status).toBe(404)
  expect((await ada.call('GET', metricsPath(others.rental.name))).status).toBe(404)
  const ids = `${own.rental.id},${others.rental.id},${others.rental.name},999999`
  const { body } = await ada.call('GET', `/v2/rental-metrics?ids=${ids}`)
  expect(body.rentals.map(({ rentalId }: { rentalId: number }) => rentalId)).toEqual([own.rental.id])
  const values: Array<number | null> = body.rentals[0].gpuUtilizationPercent
  expect([values.length, values.at(-2), values.at(0)]).toEqual([60, 40, 40])
  const exported = await ada.call('GET', '/v2/metrics')
  expect(exported.headers.get('content-type')).toContain('text/plain; version=0.0.4')
  expect(exported.body).toContain(
    `berth_rental_up{rental="${own.rental.name}",rental_id="${own.rental.id}",kind="container"} 1`,
  )
  expect(exported.body).not.toContain(others.rental.name)
})

test('the time range is checked, and long ranges get longer steps', async () => {
  const path = metricsPath(own.rental.id)
  const later = formatInstant(addMs(clock.now(), HOUR_MS))
  expect((await ada.call('GET', `${path}?from=${later}`)).status).toBe(400)
  expect((await ada.call('GET', `${path}?from=yesterday`)).status).toBe(400)
  expect((await ada.call('GET', `${path}?from=${formatInstant(START)}&step=1`)).status).toBe(400)
  const month = await ada.call('GET', `${path}?from=${formatInstant(addMs(clock.now(), -400 * DAY_MS))}&step=10`)
  const { stepSeconds, series } = month.body.history
  expect(stepSeconds).toBeGreaterThanOrEqual(300)
  expect(series[0].average.length).toBeLessThanOrEqual(2_000)
})

test('history survives a restart of the server, and its last minute too', async () => {
  const query = `from=${formatInstant(START)}&step=60`
  await report('host-1', [99, 80], [own.workloadId], 50)
  clock.advance(SAMPLE_MS)
  const before = await history(ada.call, own.rental.id, query)
  expect(before['gpuUtilizationPercent']?.at(-1)).toBe(80)
  await server.close()
  server = await start()
  const again = server.as(ada.key)
  expect(await history(again, own.rental.id, query)).toEqual(before)
})

test('samples become averages and maxima of five minutes and are dropped after a day, those after thirty', async () => {
  const signal = new AbortController().signal
  const pass = async (): Promise<void> => {
    while (await summarizeMetrics(server.app).run(signal));
    while (await applyRetention(server.app, defaultRetention, () => {}).run(signal));
  }
  await pass()
  const call = server.as(ada.key)
  const hour = `from=${formatInstant(START)}&to=${formatInstant(addMs(START, HOUR_MS))}&step=300`
  const read = async () => {
    const { body } = await call('GET', `${metricsPath(own.rental.id)}?${hour}`)
    const found = body.history.series.find(({ metric }: { metric: string }) => metric === 'gpuUtilizationPercent')
    return [found?.average, found?.maximum]
  }
  const expected = [Array.from({ length: 12 }, () => 40), Array.from({ length: 12 }, () => 60)]
  expect(await read()).toEqual(expected)
  const count = async (table: 'rental_sample' | 'rental_summary'): Promise<number> => {
    const { db } = server.app.database
    return (await db.selectFrom(table).select('rental_id').execute()).length
  }
  expect(await count('rental_sample')).toBeGreaterThan(MINUTES)
  clock.advance(26 * HOUR_MS)
  await pass()
  expect(await count('rental_sample')).toBe(0)
  expect(await read()).toEqual(expected)
  clock.advance(32 * DAY_MS)
  await pass()
  expect(await count('rental_summary')).toBe(0)
})
