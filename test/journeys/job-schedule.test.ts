/** Schedules of jobs, with a clock of the test. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { MINUTE_MS, SECOND_MS } from '../../src/base/instant.ts'
import { limits } from '../../src/base/limits.ts'
import { startJourney, succeed, type Journey } from '../harness/journey.ts'
import { caller, type Call } from '../harness/server.ts'

let journey: Journey
let ada: Call

beforeAll(async () => {
  journey = await startJourney()
  ada = (await journey.account({ usd: '1000' })).call
})
afterAll(() => journey.close())

const order = { image: { name: 'debian' }, gpus: { machineId: 'mock-iad-h100-01' }, cron: '*/10 * * * *' }
const schedule = (by: Call = ada, change: object = {}) =>
  succeed(by, 'POST', '/v2/job-schedules', { ...order, ...change })
const listed = async (id: string, by: Call = ada) =>
  (await succeed(by, 'GET', '/v2/job-schedules')).schedules.find((one: { id: string }) => one.id === id)
const jobs = async (by: Call = ada) => (await succeed(by, 'GET', '/v2/jobs')).jobs
const remove = (id: string) => succeed(ada, 'DELETE', `/v2/job-schedules/${id}`)

/** To the next time that ends in a zero minute. */
async function toNextTime(): Promise<void> {
  const intoMs = Date.parse(journey.now()) % (10 * MINUTE_MS)
  await journey.advance(10 * MINUTE_MS - intoMs)
}

async function endJobs(by: Call = ada): Promise<void> {
  for (const { id } of await jobs(by)) await succeed(by, 'POST', `/v2/jobs/${id}/cancel`)
  await journey.advance(10 * SECOND_MS)
}

test('a job is ordered at each time, but none while the one before runs, and missed times once', async () => {
  const { id, nextAt } = await schedule(ada, { name: 'often', input: { epochs: 3 }, maxCostUsd: '1.50' })
  expect(Date.parse(nextAt) - Date.parse(journey.now())).toBeLessThanOrEqual(10 * MINUTE_MS)
  expect(await jobs()).toEqual([])
  await toNextTime()
  const [first] = await jobs()
  expect(await succeed(ada, 'GET', `/v2/jobs/${first.id}`)).toMatchObject({ name: 'often', maxCostUsd: '1.500000000' })
  expect(await listed(id)).toMatchObject({ lastJobId: first.id, lastReason: null, lastAt: nextAt })
  await toNextTime()
  expect(await jobs()).toHaveLength(1)
  expect(await listed(id)).toMatchObject({ lastJobId: first.id, lastReason: 'job_still_runs' })
  await endJobs()
  // No server ran for five of its times.
  await journey.advance(50 * MINUTE_MS)
  expect(await jobs()).toHaveLength(2)
  await endJobs()
  await remove(id)
  await toNextTime()
  expect(await jobs()).toHaveLength(2)
})

test('a schedule is paused, resumed and changed by its account alone', async () => {
  const { id } = await schedule()
  const before = (await jobs()).length
  const change = (body: object, by = ada) => by('PATCH', `/v2/job-schedules/${id}`, body)
  expect((await change({ paused: true })).body).toMatchObject({ paused: true, nextAt: null })
  await toNextTime()
  expect(await jobs()).toHaveLength(before)
  const resumed = (await change({ paused: false, cron: '0 0 1 1 *' })).body
  expect(resumed).toMatchObject({ paused: false, cron: '0 0 1 1 *' })
  expect(resumed.nextAt).toMatch(/^\d{4}-01-01T00:00:00/)
  const bob = (await journey.account({ usd: '1' })).call
  expect(await change({ paused: true }, bob)).toMatchObject({ status: 404, body: { reason: 'job_schedule_not_found' } })
  expect((await bob('DELETE', `/v2/job-schedules/${id}`)).status).toBe(404)
  expect((await succeed(bob, 'GET', '/v2/job-schedules')).schedules).toEqual([])
  const refused = await change({ cron: '61 * * * *' })
  expect([refused.status, refused.body.issues[0].path]).toEqual([400, ['cron']])
  await remove(id)
})

test('a schedule whose key is revoked is paused, until somebody resumes it with theirs', async () => {
  const { key, publicId } = await succeed(ada, 'POST', '/v2/api-keys', {
    name: 'cron',
    scopes: ['compute:read', 'compute:write'],
  })
  const { id } = await schedule(caller(journey.url, key))
  await succeed(ada, 'DELETE', `/v2/api-keys/${publicId}`)
  const before = (await jobs()).length
  await toNextTime()
  expect(await jobs()).toHaveLength(before)
  expect(await listed(id)).toMatchObject({ paused: true, nextAt: null, lastReason: 'key_not_valid' })
  await succeed(ada, 'PATCH', `/v2/job-schedules/${id}`, { paused: false })
  await toNextTime()
  expect(await jobs()).toHaveLength(before + 1)
  await endJobs()
  await remove(id)
})

test('an order that is refused later says why, and the schedule goes on', async () => {
  await succeed(ada, 'PUT', '/v2/secrets/token', { value: 'planted' })
  const { id } = await schedule(ada, { env: { TOKEN: '{{ secrets.token }}' } })
  await succeed(ada, 'DELETE', '/v2/secrets/token')
  const before = (await jobs()).length
  await toNextTime()
  expect(await jobs()).toHaveLength(before)
  const shown = await listed(id)
  expect(shown).toMatchObject({ paused: false, lastReason: 'secret_not_found' })
  expect(shown.nextAt).not.toBeNull()
  await remove(id)
  const absent = await ada('POST', '/v2/job-schedules', { ...order, env: { KEY: '{{ secrets.ABSENT }}' } })
  expect(absent.body.reason).toBe('secret_not_found')
})

test('an account has a limited number of schedules', async () => {
  const bob = (await journey.account({ usd: '1' })).call
  for (let n = 0; n < limits.jobSchedules; n += 1) await schedule(bob)
  expect((await bob('POST', '/v2/job-schedules', order)).body.reason).toBe('quota_exceeded')
})
