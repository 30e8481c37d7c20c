/** The queue of jobs, and jobs that lose their machines: on the simulated provider, with a clock of the test. */
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DAY_MS, SECOND_MS } from '../../src/base/instant.ts'
import { limits } from '../../src/base/limits.ts'
import { formatUsd, nanoUsdOf, usd } from '../../src/base/money.ts'
import { VANISH_AFTER_MS } from '../../src/drivers/mock/faults.ts'
import { chargedFor, checkLedgerAndEngines, startJourney, succeed, type Journey } from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

const MACHINE = 'mock-iad-h100-01'
const MINUTES_LONG = 300_000

let journey: Journey
let ada: Call
let bob: Call

beforeAll(async () => {
  journey = await startJourney()
  ada = (await journey.account({ usd: '100000' })).call
  bob = (await journey.account({ usd: '100000' })).call
})
afterAll(() => journey.close())

const order = { image: { name: 'debian' }, gpus: { machineId: MACHINE, count: 1 } }
const start = async (by: Call, change: object = {}): Promise<string> =>
  (await succeed(by, 'POST', '/v2/jobs', { ...order, ...change })).id
const read = (by: Call, id: string) => succeed(by, 'GET', `/v2/jobs/${id}`)
const cancel = (by: Call, id: string) => succeed(by, 'POST', `/v2/jobs/${id}/cancel`)

async function livingRentals(by: Call): Promise<Array<{ id: number }>> {
  return (await succeed(by, 'GET', '/v2/rentals?kind=container')).rentals
}

async function settle(): Promise<void> {
  await journey.pass()
  await journey.advance(5 * SECOND_MS)
  await journey.advance(5 * SECOND_MS)
}

async function cancelAll(by: Call): Promise<void> {
  const { jobs } = await succeed(by, 'GET', '/v2/jobs?limit=1000')
  const living = jobs.filter(({ endedAt }: { endedAt: string | null }) => endedAt === null)
  for (const { id } of living) await cancel(by, id)
  await settle()
}

test('promise 56: an array of 1,000 makes at most `parallel` rentals', { timeout: MINUTES_LONG }, async () => {
  const id = await start(ada, { array: { count: 1_000, parallel: 3 } })
  await settle()
  expect(await livingRentals(ada)).toHaveLength(3)
  const job = await read(ada, id)
  expect(job).toMatchObject({
    state: 'Running',
    counts: { running: 3, queued: 997 },
    waiting: { reason: 'parallel_limit' },
  })
  const [first] = await livingRentals(ada)
  await succeed(ada, 'DELETE', `/v2/rentals/${first?.id}`)
  await settle()
  expect(await livingRentals(ada)).toHaveLength(3)
  expect((await read(ada, id)).counts).toMatchObject({ running: 3, queued: 996, cancelled: 1 })
  const { tasks } = await succeed(ada, 'GET', `/v2/jobs/${id}/tasks?limit=4`)
  expect(tasks.map(({ index }: { index: number }) => index)).toEqual([0, 1, 2, 3])
  await cancelAll(ada)
  expect(await read(ada, id)).toMatchObject({ state: 'Cancelled', counts: { cancelled: 1_000 } })
})

test(
  'promise 57: ten thousand jobs of one account delay the job of another by one turn',
  { timeout: MINUTES_LONG },
  async () => {
    const first = await start(ada)
    await copyJob(first, limits.jobsPerAccount - 1)
    expect((await ada('POST', '/v2/jobs', order)).body.reason).toBe('quota_exceeded')
    await settle()
    const taken = (await livingRentals(ada)).length
    expect(taken).toBe(8)
    const id = await start(bob)
    expect(await read(bob, id)).toMatchObject({ state: 'Queued', place: 1 })
    await journey.pass()
    expect((await read(bob, id)).waiting).toMatchObject({ reason: 'no_capacity' })
    const [one] = await livingRentals(ada)
    await succeed(ada, 'DELETE', `/v2/rentals/${one?.id}`)
    await settle()
    expect(await read(bob, id)).toMatchObject({ state: 'Running', waiting: null, place: null })
    await cancelAll(bob)
    await sql`delete from job where id like 'job_copy_%' and queued > 0`.execute(journey.app.database.db)
    await cancelAll(ada)
    expect(await livingRentals(ada)).toEqual([])
  },
)

/** Orders over HTTP would take minutes. */
async function copyJob(id: string, copies: number): Promise<void> {
  const { db } = journey.app.database
  const row = await db.selectFrom('job').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  const columns = Object.keys(row)
    .filter((name) => name !== 'id')
    .map((name) => sql.ref(name))
  await sql`insert into job (id, ${sql.join(columns)})
    select 'job_copy_' || n, ${sql.join(columns)} from job, generate_series(1, ${copies}::integer) n where id = ${id}`.execute(
    db,
  )
  await sql`insert into job_task (job_id, task) select id, 0 from job where id like 'job_copy_%'`.execute(db)
}

test('a server with simulated machines alone starts nothing that names none', async () => {
  const id = await start(bob, { gpus: { count: 1 } })
  await journey.pass()
  expect((await read(bob, id)).waiting).toMatchObject({ reason: 'job_only_simulated' })
  await cancelAll(bob)
})

test('a higher priority starts first, within the account', { timeout: MINUTES_LONG }, async () => {
  const full = await start(ada, { gpus: { machineId: MACHINE, count: 8 } })
  await settle()
  const low = await start(ada, { gpus: { machineId: MACHINE, count: 8 } })
  const high = await start(ada, { gpus: { machineId: MACHINE, count: 8 }, priority: 5 })
  expect(await read(ada, high)).toMatchObject({ place: 1 })
  expect(await read(ada, low)).toMatchObject({ place: 2 })
  await cancel(ada, full)
  await settle()
  expect([(await read(ada, high)).state, (await read(ada, low)).state]).toEqual(['Running', 'Queued'])
  await cancelAll(ada)
})

test(
  'promises 49 and 54: a lost machine is free and the job starts again, ten times',
  { timeout: MINUTES_LONG },
  async () => {
    const id = await start(ada, { name: 'fault-vanish' })
    for (let n = 0; n < 200 && (await read(ada, id)).endedAt === null; n += 1) await journey.advance(10 * SECOND_MS)
    const { task, state } = await read(ada, id)
    expect([state, task.reason, task.restarts]).toEqual(['Failed', 'job_lost', limits.jobRestarts + 1])
    expect(task.attempts).toHaveLength(limits.jobRestarts + 1)
    const [first, second] = task.attempts
    // Contact is lost, twenty seconds pass, and the next attempt is ordered.
    const delayMs = Date.parse(second.createdAt) - Date.parse(first.startedAt) - VANISH_AFTER_MS
    expect(delayMs).toBeLessThanOrEqual(60 * SECOND_MS)
    const { pricePerHourUsd } = await succeed(ada, 'GET', `/v2/rentals/${first.rentalId}`)
    const seen = (usd(pricePerHourUsd) * BigInt(VANISH_AFTER_MS)) / 3_600_000n
    for (const { costUsd } of task.attempts) expect(usd(costUsd) <= seen).toBe(true)
  },
)

test('promise 51: lost attempts count for the time and the cost of a job', { timeout: MINUTES_LONG }, async () => {
  const timeoutSeconds = 150
  const id = await start(ada, { name: 'fault-vanish', timeoutSeconds })
  for (let n = 0; n < 100 && (await read(ada, id)).endedAt === null; n += 1) await journey.advance(10 * SECOND_MS)
  const { task, state } = await read(ada, id)
  expect([state, task.reason]).toEqual(['TimedOut', 'auto_terminate'])
  expect(task.attempts.length).toBeGreaterThanOrEqual(3)
  // By the charged spans: none is longer than it ran.
  const spans = await journey.app.database.db
    .selectFrom('segment as s')
    .innerJoin('job_attempt as a', 'a.rental_id', 's.rental_id')
    .select(['s.started_at', 's.ended_at'])
    .where('a.job_id', '=', id)
    .execute()
  const ranMs = spans.reduce((sum, { started_at: from, ended_at: to }) => sum + (Number(to) - from), 0)
  expect(ranMs).toBeLessThanOrEqual((timeoutSeconds + 10) * SECOND_MS)

  // The first attempt alone costs the price of the minute after which it is lost.
  const [first] = task.attempts
  const { pricePerHourUsd } = await succeed(ada, 'GET', `/v2/rentals/${first.rentalId}`)
  const maxCost = (usd(pricePerHourUsd) * BigInt(1.5 * VANISH_AFTER_MS)) / 3_600_000n
  const capped = await start(ada, { name: 'fault-vanish', maxCostUsd: formatUsd(nanoUsdOf(maxCost)), retries: 5 })
  for (let n = 0; n < 100 && (await read(ada, capped)).endedAt === null; n += 1) await journey.advance(10 * SECOND_MS)
  const end = await read(ada, capped)
  expect([end.state, end.task.reason]).toEqual(['Failed', 'max_cost'])
  expect(end.task.attempts.length).toBeGreaterThanOrEqual(2)
  expect(usd(end.costUsd) <= maxCost).toBe(true)
  expect(await chargedForRentals(end.task.attempts)).toBe(usd(end.costUsd))
})

async function chargedForRentals(attempts: ReadonlyArray<{ rentalId: number }>): Promise<bigint> {
  const charges = await Promise.all(attempts.map(({ rentalId }) => chargedFor(ada, { rentalId })))
  return charges.reduce((sum, charge) => sum + charge, 0n)
}

test(
  'promise 50: results stay for thirty days, and a job that runs is never deleted',
  { timeout: MINUTES_LONG },
  async () => {
    const running = await start(ada, { timeoutSeconds: 31 * 24 * 3_600 - 24 * 3_600 })
    const done = await start(bob)
    await settle()
    await cancel(bob, done)
    await settle()
    const { endedAt, deletedAfter } = await read(bob, done)
    expect(Date.parse(deletedAfter) - Date.parse(endedAt)).toBe(30 * DAY_MS)
    await journey.advance(29 * DAY_MS)
    expect((await read(bob, done)).state).toBe('Cancelled')
    expect((await read(ada, running)).state).toBe('Running')
    await journey.advance(DAY_MS)
    expect(await bob('GET', `/v2/jobs/${done}`)).toMatchObject({ status: 404 })
    await journey.advance(DAY_MS)
    // It reached its time limit, which is the longest.
    expect((await read(ada, running)).state).toBe('TimedOut')
    await cancelAll(ada)
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  },
)
