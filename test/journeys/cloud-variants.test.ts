/**
 * Rentals at each cloud through the API: the machine fills its variant of provider data, the answers are as the interface
 * says, and its end leaves nothing at the cloud. At Voltage Park also volumes, which attach to its bare metal. The journey of
 * Lambda (clouds.test.ts) has the money in detail.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS, type Clock } from '../../src/base/instant.ts'
import { costOfSpan, usd } from '../../src/base/money.ts'
import { providerData } from '../../src/contract/provider-data.ts'
import { CrusoeSim } from '../sim/clouds/crusoe/cloud.ts'
import { DenvrSim } from '../sim/clouds/denvr/cloud.ts'
import { LatitudeSim } from '../sim/clouds/latitude/cloud.ts'
import type { SimServer } from '../sim/clouds/server.ts'
import { VerdaSim } from '../sim/clouds/verda/cloud.ts'
import { VoltageParkSim } from '../sim/clouds/voltage-park/cloud.ts'
import { operations } from '../fixtures/interface.ts'
import { faultsOf } from '../fixtures/shape-faults.ts'
import { chargedFor, checkLedgerAndEngines, startJourney, succeed, type Journey } from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

interface Sim {
  readonly server: SimServer
  readonly credentials: Readonly<Record<string, string>>
  leftovers(): string[]
}

const onDemand = '/v2/alpha/on-demand'
const volumes = `${onDemand}/storage-volumes`
const metal = { kind: 'bare-metal', gpuCount: 8, region: 'us-central-1' } as const
const virtual = { kind: 'virtual-machine', gpuType: 'h100', networkType: 'ethernet' } as const
let park: VoltageParkSim
const rentals = [
  {
    provider: 'crusoe',
    order: { ...virtual, gpuCount: 8, region: 'us-east-1' },
    data: { publicIpAddressId: expect.any(String), resources: { vcpuCount: 176 }, sshNetworking: [{ user: 'ubuntu' }] },
  },
  {
    provider: 'denvr',
    order: { ...virtual, gpuCount: 8, region: 'ca-west-1' },
    // The contract is cheaper than the shared pool.
    data: { poolType: 'contracted', resources: { vcpuCount: 200 }, sshNetworking: [{ user: 'ubuntu' }] },
  },
  {
    provider: 'verda',
    order: { ...virtual, gpuCount: 1, region: 'eu-north-2' },
    data: { resources: { vcpuCount: 30, storageGb: 200 }, sshNetworking: [{ user: 'root' }] },
  },
  {
    provider: 'latitude',
    order: { ...metal, networkType: 'ethernet', region: 'uk-central-3' },
    data: { resources: { cpuCount: expect.any(Number) }, sshNetworking: [{ port: 22 }] },
  },
  {
    provider: 'voltage-park',
    order: { ...virtual, gpuCount: 2, region: 'us-central-1', customPorts: [8080] },
    data: {
      resources: { vcpuCount: 52 },
      portForwards: [
        { internalPort: 22, externalPort: expect.any(Number) },
        { internalPort: 8080, externalPort: expect.any(Number) },
      ],
    },
  },
  {
    provider: 'voltage-park',
    order: { ...metal, gpuCount: 16, networkType: 'infiniband' },
    data: { subOrder: '7', networkType: 'infiniband', resources: { cpuCount: 208, gpuCount: 16 } },
  },
] as const

let journey: Journey
let ada: Call
const sims = new Map<string, Sim>()

/** So that each cloud is alone in its region. */
const regions: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  latitude: { DAL: 'uk-central-3' },
}

beforeAll(async () => {
  journey = await startJourney({ env: { BERTH_DRIVERS: 'host', BERTH_ALLOW_PRIVATE_ADDRESSES: 'true' } })
  const { clock }: { clock: Clock } = journey
  park = new VoltageParkSim({ clock })
  sims.set('crusoe', new CrusoeSim({ clock }))
  sims.set('denvr', new DenvrSim({ clock }))
  sims.set('verda', new VerdaSim({ clock }))
  sims.set('latitude', new LatitudeSim({ clock }))
  sims.set('voltage-park', {
    server: park.server,
    credentials: { apiToken: park.apiToken, suborder: '7' },
    leftovers: () => park.leftovers(),
  })
  for (const [provider, { server, credentials }] of sims) {
    const account = { name: `my-${provider}`, provider, baseUrl: await server.listen(), credentials }
    const rules = { markupPercentage: 10, regions: regions[provider] ?? {} }
    await succeed(journey.operator, 'POST', '/v2/operator/providers', { ...account, ...rules })
  }
  ada = (await journey.account({ usd: '1000', sshKey: true })).call
  await journey.advance(MINUTE_MS)
})
afterAll(async () => {
  await journey.close()
  for (const { server } of sims.values()) await server.close()
})

const pathOf = (kind: string) => `${onDemand}/${kind}-rentals`
const read = (id: number) => succeed(ada, 'GET', `${onDemand}/rentals/${id}`)

async function rent({ kind, ...body }: (typeof rentals)[number]['order'], more: object = {}): Promise<number> {
  const rental = await succeed(ada, 'POST', pathOf(kind), { ...body, ...more })
  const operation = kind === 'bare-metal' ? operations.createBareMetalRental : operations.createVirtualMachineRental
  expect(faultsOf(operation?.answer ?? { kind: 'null' }, rental)).toEqual([])
  await journey.pass()
  await journey.advance(MINUTE_MS)
  return rental.id as number
}

async function end(kind: string, id: number): Promise<void> {
  await succeed(ada, 'POST', `${pathOf(kind)}/terminate`, { rentalId: id })
  await journey.pass()
  for (let n = 0; n < 3; n += 1) await journey.advance(MINUTE_MS)
  expect((await read(id)).status).toBe('Terminated')
}

/** A list of the interface, checked against it. */
async function listed(operation: 'listBareMetalRentals' | 'listVolumes'): Promise<Array<Record<string, unknown>>> {
  const { path = '', answer = { kind: 'null' } as const } = operations[operation] ?? {}
  const items = await succeed(ada, 'GET', path)
  expect(faultsOf(answer, items)).toEqual([])
  return items as Array<Record<string, unknown>>
}

test.each(rentals)('$provider runs a $order.kind and leaves nothing', async ({ provider, order, data }) => {
  const sim = sims.get(provider)
  const { ok } = await succeed(journey.operator, 'POST', `/v2/operator/providers/my-${provider}/check`, {})
  expect(ok).toBe(true)
  const id = await rent(order)
  const rental = await read(id)
  expect(rental.status).toBe('Running')
  expect(providerData.parse(rental.providerData)).toMatchObject({ providerId: provider, ...data })
  const isListed = (await listed('listBareMetalRentals')).some((one) => one.id === id)
  expect(isListed).toBe(order.kind === 'bare-metal')
  await journey.advance(5 * MINUTE_MS)
  await end(order.kind, id)
  expect(sim?.leftovers()).toEqual([])
  expect(sim?.server.violations).toEqual([])
  const { margins } = await succeed(journey.operator, 'GET', '/v2/operator/margins?by=rental')
  expect(margins).toContainEqual(expect.objectContaining({ subject: String(id) }))
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

describe('volumes of Voltage Park', () => {
  const order = { region: 'us-central-1', label: 'datasets', sizeInGb: 1024 }
  /** The simulator charges $0.00012 per GB-hour. */
  const costPerHour = usd('0.12288')
  let rentalId: number
  let volumeId: number
  const find = async () => (await listed('listVolumes')).find(({ id }) => id === volumeId)
  const marginOf = async (subject: string) => {
    const { margins } = await succeed(journey.operator, 'GET', '/v2/operator/margins?by=rental')
    return (margins as Array<{ subject: string; costUsd: string; revenueUsd: string }>).find(
      (one) => one.subject === subject,
    )
  }

  test('are sold at the price book, and attached to a machine that is ordered with them', async () => {
    await succeed(journey.operator, 'PUT', '/v2/operator/price-book', {
      storage: [{ region: order.region, perGbHourUsd: '0.0002', enabled: true }],
      reason: 'Voltage Park has storage',
    })
    const created = await succeed(ada, 'POST', volumes, order)
    expect(faultsOf(operations.createVolume?.answer ?? { kind: 'null' }, created)).toEqual([])
    volumeId = created.storageVolumeId as number
    await journey.pass()
    expect(park.leftovers()).toEqual([expect.stringMatching(/^storage berth-/)])
    rentalId = await rent(rentals[5].order, { storageVolume: { isNew: false, id: volumeId } })
    expect(await find()).toMatchObject({ status: 'active', attachedRentals: [rentalId], vip: '10.15.255.10' })
    expect((await listed('listBareMetalRentals')).find(({ id }) => id === rentalId)).toMatchObject({
      attachedStorage: [{ id: volumeId, size_in_gb: 1024, attached_instance_ids: [rentalId] }],
      supportsFeature: { attachedStorage: true },
    })
    expect(park.storages.all()).toMatchObject([{ sizeGb: 1024, rentals: [expect.any(String)] }])
  })

  test('are detached and attached again while the machine runs', async () => {
    await succeed(ada, 'POST', `${volumes}/detach`, { storageVolumeId: volumeId, rentalIds: [rentalId] })
    await journey.pass()
    expect(park.storages.all()).toMatchObject([{ rentals: [] }])
    const attached = await succeed(ada, 'POST', `${volumes}/attach`, {
      storageVolumeId: volumeId,
      rentalIds: [rentalId],
    })
    expect(faultsOf(operations.attachVolume?.answer ?? { kind: 'null' }, attached)).toEqual([])
    await journey.pass()
    expect(park.storages.all()).toMatchObject([{ rentals: [expect.any(String)] }])
  })

  test('cost us their price by the started minute, beside what the customer pays', async () => {
    await journey.advance(HOUR_MS)
    await end('bare-metal', rentalId)
    const refused = await journey.operator('DELETE', '/v2/operator/providers/my-voltage-park')
    expect(refused.body.reason).toBe('provider_in_use')
    const [atPark] = park.storages.all()
    await succeed(ada, 'POST', `${volumes}/terminate`, { storageVolumeId: volumeId })
    const billed = atPark?.bill.nanoUsd(journey.clock.now()) ?? 0n
    await journey.pass()
    await journey.advance(MINUTE_MS)
    expect(park.leftovers()).toEqual([])
    const margin = await marginOf(`volume ${volumeId}`)
    const over = usd(margin?.costUsd ?? '0') - billed
    expect(over).toBeGreaterThanOrEqual(0n)
    expect(over).toBeLessThanOrEqual(costOfSpan(costPerHour, 2 * MINUTE_MS))
    expect(usd(margin?.revenueUsd ?? '0')).toBe(await chargedFor(ada, { volumeId }))
    expect(park.server.violations).toEqual([])
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })
})
