/**
 * Orders at other clouds that do not go as planned: no room after the cloud accepted the order, refusals, and machines that
 * take long to start.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { MINUTE_MS } from '../../src/base/instant.ts'
import { VerdaSim } from '../sim/clouds/verda/cloud.ts'
import { VoltageParkSim } from '../sim/clouds/voltage-park/cloud.ts'
import { startJourney, succeed, type Journey } from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

const onDemand = '/v2/alpha/on-demand'
const virtual = { gpuCount: 1, gpuType: 'h100', networkType: 'ethernet' }
const atVerda = { ...virtual, region: 'eu-north-2' }
let [journey, ada]: [Journey, Call] = [undefined as never, undefined as never]
let [main, other]: [VerdaSim, VerdaSim] = [undefined as never, undefined as never]
let park: VoltageParkSim

beforeAll(async () => {
  journey = await startJourney({ env: { BERTH_DRIVERS: 'host', BERTH_ALLOW_PRIVATE_ADDRESSES: 'true' } })
  const { clock } = journey
  main = new VerdaSim({ clock })
  other = new VerdaSim({ clock })
  park = new VoltageParkSim({ clock, bootMs: 40 * MINUTE_MS })
  const accounts = [
    { name: 'main', provider: 'verda', sim: main, credentials: main.credentials, preference: 10 },
    { name: 'other', provider: 'verda', sim: other, credentials: other.credentials, preference: 0 },
    { name: 'park', provider: 'voltage-park', sim: park, credentials: { apiToken: park.apiToken }, preference: 0 },
  ]
  for (const { sim, ...account } of accounts) {
    const body = { ...account, baseUrl: await sim.server.listen(), markupPercentage: 10 }
    await succeed(journey.operator, 'POST', '/v2/operator/providers', body)
  }
  ada = (await journey.account({ usd: '10000', sshKey: true })).call
  await journey.advance(MINUTE_MS)
})
afterAll(async () => {
  await journey.close()
  for (const { server } of [main, other, park]) await server.close()
})

const order = async (body: object, kind = 'virtual-machine'): Promise<number> =>
  (await succeed(ada, 'POST', `${onDemand}/${kind}-rentals`, body)).id as number
const statusOf = async (id: number) => (await succeed(ada, 'GET', `${onDemand}/rentals/${id}`)).status as string

test('an order that a cloud has no room for after all runs at the next one, and leaves nothing (issue 31, 8: V-1)', async () => {
  main.roomless = 1
  const id = await order(atVerda)
  for (let n = 0; n < 5; n += 1) await journey.advance(MINUTE_MS)
  expect(await statusOf(id)).toBe('Running')
  expect([...main.launches().values()]).toEqual([1])
  expect(other.leftovers().filter((one) => one.startsWith('instance'))).toHaveLength(1)
  // Keys and scripts go with the rental.
  expect(main.leftovers().filter((one) => !/^(?:key|script) /.test(one))).toEqual([])
})

test('what a cloud says when it refuses an order is for the operator alone (issue 31, 8: S-5)', async () => {
  const said = 'Please raise ticket 17 with sales'
  for (const sim of [main, other]) {
    const answer = { status: 400, body: { code: 'invalid_request', message: said } }
    sim.server.arm('createInstance', { kind: 'answer', answer })
  }
  const id = await order(atVerda)
  await journey.pass()
  expect(await statusOf(id)).toBe('Failed')
  const { rentals } = await succeed(journey.operator, 'GET', `/v2/operator/rentals?q=${id}`)
  expect(rentals).toContainEqual(expect.objectContaining({ id, lastError: expect.stringContaining(said) }))
  const { events } = await succeed(ada, 'GET', `/v2/events?limit=100&subject=rental:${id}`)
  expect(JSON.stringify(events)).toContain('rejected_by_provider')
  expect(JSON.stringify([events, await succeed(ada, 'GET', `${onDemand}/rentals/${id}`)])).not.toContain('ticket 17')
})

test('bare metal that is installed for 40 minutes does not fail after 30 (issue 31, 8: La-6)', async () => {
  const id = await order({ gpuCount: 8, networkType: 'infiniband', region: 'us-central-1' }, 'bare-metal')
  await journey.pass()
  await journey.advanceBy(5 * MINUTE_MS, 7)
  expect(await statusOf(id)).toBe('Pending')
  await journey.advanceBy(5 * MINUTE_MS, 2)
  expect(await statusOf(id)).toBe('Running')
})
