/**
 * Idle rules from samples to their effect, with hosts whose messages the test writes: a rental that is used in any way
 * is never touched, one that is not gets a warning first.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { instantOf, MINUTE_MS } from '../src/base/instant.ts'
import type { WorkloadMetrics } from '../src/contract/agent.ts'
import type { IdleRule } from '../src/contract/workload.ts'
import { watchIdle } from '../src/reconcile/idle.ts'
import { manualClock } from './sim/clock.ts'
import { findRental } from '../src/store/rental/rental.ts'
import { testDatabase, type TestDatabase } from './harness/database.ts'
import { hostUse, insertMeasuredRental, workloadUse, type MeasuredRental } from './harness/measured-rental.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'

const SAMPLE_MS = 10_000
const clock = manualClock(instantOf(Date.UTC(2026, 0, 1, 12)))
let database: TestDatabase
let server: TestServer
let ada: { id: string; key: string; call: Call }

const start = (): Promise<TestServer> =>
  testServer({ databaseUrl: database.url, clock, runLoops: false, env: { BERTH_DRIVERS: 'mock,host' } })

beforeAll(async () => {
  database = await testDatabase()
  server = await start()
  ada = await server.account()
})
afterAll(async () => {
  await server.close()
  await database.drop()
})

let hosts = 0
async function rent(rule: Partial<IdleRule>): Promise<MeasuredRental> {
  hosts += 1
  const own = await insertMeasuredRental(server.app, ada.id, `host-${hosts}`)
  const idle = { afterMinutes: 5, gpuUtilBelowPercent: 5, action: 'terminate', graceSeconds: 60, ...rule }
  const { db } = server.app.database
  await db
    .updateTable('rental')
    .set({ idle: JSON.stringify(idle) })
    .where('id', '=', own.rental.id)
    .execute()
  return own
}

interface Use {
  readonly utilization?: number | null
  readonly workload?: Partial<WorkloadMetrics>
}

/** Reports and passes like a server that has run all the time. */
async function live(rentals: ReadonlyArray<readonly [MeasuredRental, Use]>, minutes: number): Promise<void> {
  for (let n = 0; n < minutes * 6; n += 1) {
    clock.advance(SAMPLE_MS)
    for (const [{ hostId, workloadId }, { utilization = 0, workload = {} }] of rentals) {
      const use = hostUse([utilization], [workloadUse(workloadId, workload)])
      server.app.recorder?.take(hostId, null, use)
    }
    await server.app.recorder?.tick()
    if (n % 2 === 0) await watchIdle(server.app).run(new AbortController().signal)
  }
}

const eventsOf = async ({ rental }: MeasuredRental): Promise<string[]> => {
  const { body } = await server.as(ada.key)('GET', `/v2/events?subject=rental:${rental.id}`)
  return body.events.map((event: { type: string }) => event.type).toReversed()
}
const statusOf = async ({ rental }: MeasuredRental): Promise<string | undefined> =>
  (await findRental(server.app.database.db, rental.id))?.status

test('warns after the wait and acts after the grace period; any use keeps a rental', async () => {
  const idle = await rent({})
  const told = await rent({ action: 'notify' })
  const used: ReadonlyArray<readonly [string, Use]> = [
    ['SSH', { workload: { active: ['ssh'], quietSeconds: 0 } }],
    ['an exec or a start script', { workload: { active: ['program'], quietSeconds: 0 } }],
    ['a connection', { workload: { active: ['connection'], quietSeconds: 0 } }],
    ['a connection between two samples', { workload: { quietSeconds: 4 } }],
    ['a GPU', { utilization: 30 }],
    ['a GPU that is not measured', { utilization: null }],
  ]
  const kept = await Promise.all(used.map(async ([, use]) => [await rent({}), use] as const))
  await live([[idle, {}], [told, {}], ...kept], 5)
  expect(await eventsOf(idle)).toEqual([])
  await live([[idle, {}], [told, {}], ...kept], 0.5)
  expect([await eventsOf(idle), await statusOf(idle)]).toEqual([['rental.idle'], 'Running'])
  await live([[idle, {}], [told, {}], ...kept], 2)
  expect(await eventsOf(idle)).toEqual(['rental.idle', 'rental.terminating', 'rental.terminated'])
  expect((await findRental(server.app.database.db, idle.rental.id))?.status_reason).toBe('idle')
  expect([await eventsOf(told), await statusOf(told)]).toEqual([['rental.idle'], 'Running'])
  for (const [rental] of kept) expect([await eventsOf(rental), await statusOf(rental)]).toEqual([[], 'Running'])
})

test('a login in the grace period keeps the rental, even one that is over before the last sample', async () => {
  const own = await rent({})
  await live([[own, {}]], 5.5)
  expect(await eventsOf(own)).toEqual(['rental.idle'])
  await live([[own, { workload: { quietSeconds: 7 } }]], 1 / 6)
  await live([[own, {}]], 3)
  expect([await eventsOf(own), await statusOf(own)]).toEqual([['rental.idle'], 'Running'])
})

test('a clean restart of the server does not begin the wait anew; silence does', async () => {
  const own = await rent({})
  await live([[own, {}]], 4)
  await server.close()
  server = await start()
  await live([[own, {}]], 1.5)
  expect(await eventsOf(own)).toEqual(['rental.idle'])
  const silent = await rent({})
  await live([[silent, {}]], 4)
  clock.advance(2 * MINUTE_MS)
  await live([[silent, {}]], 4)
  expect(await eventsOf(silent)).toEqual([])
})
