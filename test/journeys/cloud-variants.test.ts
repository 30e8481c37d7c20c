/**
 * One rental at each cloud through the API: the machine fills its variant of provider data, and
 * its end leaves nothing at the cloud. The journey of Lambda (clouds.test.ts) has the money in detail.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { MINUTE_MS, type Clock } from '../../src/base/instant.ts'
import { providerData } from '../../src/contract/provider-data.ts'
import { CrusoeSim } from '../../src/sim/clouds/crusoe/cloud.ts'
import { DenvrSim } from '../../src/sim/clouds/denvr/cloud.ts'
import type { SimServer } from '../../src/sim/clouds/server.ts'
import { VerdaSim } from '../../src/sim/clouds/verda/cloud.ts'
import { checkLedgerAndEngines, startJourney, succeed, type Journey } from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

interface Sim {
  readonly server: SimServer
  readonly credentials: Readonly<Record<string, string>>
  leftovers(): string[]
}

const rentals = '/v2/alpha/on-demand/virtual-machine-rentals'
const order = { gpuType: 'h100', networkType: 'ethernet' }
const clouds = [
  {
    provider: 'crusoe',
    open: (clock: Clock): Sim => new CrusoeSim({ clock }),
    order: { ...order, gpuCount: 8, region: 'us-central-1' },
    data: { publicIpAddressId: expect.any(String), resources: { vcpuCount: 176 }, sshNetworking: [{ user: 'ubuntu' }] },
  },
  {
    provider: 'denvr',
    open: (clock: Clock): Sim => new DenvrSim({ clock }),
    order: { ...order, gpuCount: 8, region: 'ca-west-1' },
    // The contract is cheaper than the shared pool.
    data: { poolType: 'contracted', resources: { vcpuCount: 200 }, sshNetworking: [{ user: 'ubuntu' }] },
  },
  {
    provider: 'verda',
    open: (clock: Clock): Sim => new VerdaSim({ clock }),
    order: { ...order, gpuCount: 1, region: 'eu-north-2' },
    data: { resources: { vcpuCount: 30, storageGb: 200 }, sshNetworking: [{ user: 'root' }] },
  },
] as const

let journey: Journey
let ada: Call
const sims = new Map<string, Sim>()

beforeAll(async () => {
  journey = await startJourney({ env: { BERTH_ENGINES: 'host', BERTH_ALLOW_PRIVATE_ADDRESSES: 'true' } })
  for (const { provider, open } of clouds) {
    const sim = open(journey.clock)
    sims.set(provider, sim)
    const { credentials } = sim
    const baseUrl = await sim.server.listen()
    const account = { name: `my-${provider}`, provider, baseUrl, credentials, markupPercentage: 10 }
    await succeed(journey.operator, 'POST', '/v2/operator/providers', account)
  }
  ada = (await journey.account({ usd: '1000', sshKey: true })).call
  await journey.advance(MINUTE_MS)
})
afterAll(async () => {
  await journey.close()
  for (const { server } of sims.values()) await server.close()
})

test.each(clouds)('$provider runs a virtual machine and leaves nothing', async ({ provider, order: body, data }) => {
  const sim = sims.get(provider)
  const { ok } = await succeed(journey.operator, 'POST', `/v2/operator/providers/my-${provider}/check`, {})
  expect(ok).toBe(true)
  const { id } = await succeed(ada, 'POST', rentals, body)
  await journey.pass()
  await journey.advance(MINUTE_MS)
  const rental = await succeed(ada, 'GET', `/v2/alpha/on-demand/rentals/${id as number}`)
  expect(rental.status).toBe('Running')
  expect(providerData.parse(rental.providerData)).toMatchObject({ providerId: provider, ...data })
  await journey.advance(5 * MINUTE_MS)
  await succeed(ada, 'POST', `${rentals}/terminate`, { rentalId: id })
  await journey.pass()
  for (let n = 0; n < 3; n += 1) await journey.advance(MINUTE_MS)
  expect((await succeed(ada, 'GET', `/v2/alpha/on-demand/rentals/${id as number}`)).status).toBe('Terminated')
  expect(sim?.leftovers()).toEqual([])
  expect(sim?.server.violations).toEqual([])
  const { margins } = await succeed(journey.operator, 'GET', '/v2/operator/margins')
  expect(margins).toContainEqual(expect.objectContaining({ subject: `my-${provider}` }))
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})
