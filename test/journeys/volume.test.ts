/**
 * Storage volumes: created, attached and detached all or nothing, charged by the millisecond, kept for a while when
 * unpaid.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DAY_MS, HOUR_MS } from '../../src/base/instant.ts'
import { costOfSpan, usd } from '../../src/base/money.ts'
import { listStorageOptions } from '../../src/app/order/storage-option.ts'
import { storageRegion } from '../../src/contract/region.ts'
import type { Driver } from '../../src/drivers/driver.ts'
import { fingerprint } from '../harness/fingerprint.ts'
import {
  LIST_LAG_MS,
  chargedFor,
  eventTypesOf,
  checkLedgerAndEngines,
  startJourney,
  succeed,
  type Journey,
} from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

const rentals = '/v2/alpha/on-demand/bare-metal-rentals'
const path = '/v2/alpha/on-demand/storage-volumes'

let journey: Journey
let ada: { id: string; key: string; call: Call }
const metal: number[] = []
beforeAll(async () => {
  journey = await startJourney()
  ada = await journey.account({ usd: '2000' })
  for (let n = 0; n < 2; n += 1) {
    metal.push((await succeed(ada.call, 'POST', rentals, { gpuCount: 8, networkType: 'ethernet' })).id)
  }
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
})
afterAll(() => journey.close())

const order = { region: 'us-central-1', label: 'datasets', sizeInGb: 2048 }
const make = async (more: object = {}, by: Call = ada.call): Promise<number> =>
  (await succeed(by, 'POST', path, { ...order, ...more })).storageVolumeId
const find = async (id: number, by: Call = ada.call) => {
  const all: Array<{ id: number }> = await succeed(by, 'GET', path)
  return all.find((volume) => volume.id === id)
}

/** What the simulated engine can do. */
const supports = {
  kinds: ['bare-metal', 'virtual-machine', 'container'],
  attach: ['bare-metal'],
  shared: true,
  grow: true,
  clone: true,
}

test('options show regions and prices without a key, and orders follow them', async () => {
  const read = () => succeed(journey.anonymous, 'GET', '/v2/alpha/on-demand/storage-options')
  const before = await read()
  expect(before.map((one: { region: string }) => one.region).sort()).toEqual([...storageRegion.options].sort())
  const option = { enabled: true, minSizeInGb: 256, maxSizeInGb: 64_000, availableGb: null, supports }
  expect(before).toContainEqual({ region: 'jp-east-1', costPerGbHourUsd: '0.000100000', ...option })
  const change = async (perGbHourUsd: string, enabled: boolean) =>
    succeed(journey.operator, 'PUT', '/v2/operator/price-book', {
      storage: [{ region: 'jp-east-1', perGbHourUsd, enabled }],
      reason: 'for the test',
    })
  await change('0.000123456', true)
  expect(await read()).toContainEqual({ region: 'jp-east-1', costPerGbHourUsd: '0.000123456', ...option })
  const id = await make({ region: 'jp-east-1', sizeInGb: 256 })
  // 256 × $0.000123456.
  expect(await find(id)).toMatchObject({ costPerHour: 0.031604736 })
  await change('0.000123456', false)
  expect(await read()).toContainEqual({
    region: 'jp-east-1',
    costPerGbHourUsd: '0.000123456',
    ...option,
    enabled: false,
    supports: null,
  })
  const refused = await ada.call('POST', path, { ...order, region: 'jp-east-1' })
  expect([refused.status, refused.body.reason]).toEqual([400, 'region_disabled'])
  await succeed(ada.call, 'POST', `${path}/terminate`, { storageVolumeId: id })
  await journey.pass()
})

test('an engine that cannot report its free space lacks only that number in the list', async () => {
  const mock = journey.app.drivers.get('mock')
  if (mock?.volumes === undefined) throw new Error('the simulated engine makes volumes')
  const before = await succeed(journey.anonymous, 'GET', '/v2/alpha/on-demand/storage-options')
  const away = {
    serves: ['bare-metal'] as const,
    regions: 'own' as const,
    roomGb: () => Promise.reject(new Error('the file server is away')),
  }
  const there = { roomGb: async (regions: readonly string[]) => new Map(regions.map((region) => [region, 512])) }
  const drivers = new Map<Driver['id'], Driver>([
    ['mock', { ...mock, volumes: { ...mock.volumes, ...away } }],
    ['private-cloud', { ...mock, id: 'private-cloud', volumes: { ...mock.volumes, regions: 'all', ...there } }],
  ])
  const warnings: string[] = []
  const warn = (error: unknown, what: string) => warnings.push(`${what}: ${String(error)}`)
  const options = await listStorageOptions({ ...journey.app, drivers, warn })
  expect(options.map(({ region }) => region)).toEqual(before.map((one: { region: string }) => one.region))
  const roomOf = (region: string) => options.find((one) => one.region === region)?.availableGb
  // The first engine's machines are in that region only.
  expect([roomOf('us-central-1'), roomOf('mock-region')]).toEqual([null, 512])
  expect(options.find((one) => one.region === 'us-central-1')?.enabled).toBe(true)
  expect(warnings).toEqual([expect.stringMatching(/\bmock\b.*the file server is away/)])

  // The same in the HTTP response.
  Object.assign(mock.volumes, { roomGb: away.roomGb })
  try {
    expect(await succeed(journey.anonymous, 'GET', '/v2/alpha/on-demand/storage-options')).toEqual(before)
  } finally {
    delete mock.volumes.roomGb
  }
})

let kept: number

test('creating a volume returns immediately; it is active once the engine has created it', async () => {
  const created = await succeed(ada.call, 'POST', path, order)
  kept = created.storageVolumeId
  expect(created).toEqual({
    storageVolumeId: kept,
    region: 'us-central-1',
    status: 'inactive',
    label: 'datasets',
    sizeInGb: 2048,
    attachedRentals: [],
    message: 'Storage volume is being created',
  })
  await journey.pass()
  expect(await find(kept)).toEqual({
    id: kept,
    createdAt: journey.now(),
    updatedAt: journey.now(),
    deletedAt: null,
    userId: expect.stringMatching(/^usr_/),
    orgId: ada.id,
    startedAt: journey.now(),
    terminatedAt: null,
    externalId: expect.stringMatching(new RegExp(`^berth-[0-9a-f]+-v${kept}-[0-9a-f]{8}$`)),
    sizeGb: 2048,
    label: 'datasets',
    costPerHour: 0.2048,
    region: 'us-central-1',
    storageVolumeId: kept,
    meta: {},
    status: 'active',
    attachedRentals: [],
    sizeInGb: 2048,
    vip: expect.stringMatching(/^198\.51\.100\./),
    usedGb: null,
    growingToGb: null,
    nodeName: null,
    mounts: [],
    providerId: 'mock',
    supports,
  })
})

test('attaches to several machines, and detaches from one or all of them', async () => {
  const both = { storageVolumeId: kept, rentalIds: metal }
  expect(await succeed(ada.call, 'POST', `${path}/attach`, both)).toEqual({
    storageVolumeId: kept,
    attachedRentalIds: metal,
    message: 'Storage volume is being attached',
  })
  await journey.pass()
  expect(await find(kept)).toMatchObject({ attachedRentals: metal })
  const [first, second] = metal
  const detached = await succeed(ada.call, 'POST', `${path}/detach`, { storageVolumeId: kept, rentalIds: [first] })
  expect(detached.attachedRentalIds).toEqual([second])
  await journey.pass()
  expect(await find(kept)).toMatchObject({ attachedRentals: [second] })
  const twice = await ada.call('POST', `${path}/detach`, { storageVolumeId: kept, rentalIds: [first] })
  expect([twice.status, twice.body.reason]).toEqual([400, 'not_attached'])
  expect((await succeed(ada.call, 'POST', `${path}/detach`, { storageVolumeId: kept })).attachedRentalIds).toEqual([])
  await journey.pass()
  expect(await find(kept)).toMatchObject({ attachedRentals: [] })
})

test('attaches to no rental when one of them is not eligible', async () => {
  const machine = '/v2/alpha/on-demand/virtual-machine-rentals'
  const virtual = (await succeed(ada.call, 'POST', machine, { gpuCount: 1 })).id
  const far = await succeed(ada.call, 'POST', rentals, { gpuCount: 8, networkType: 'ethernet', region: 'eu-west-3' })
  await journey.pass()
  const before = await fingerprint(journey.app)
  const cases = [
    [virtual, 'not_bare_metal'],
    [far.id, 'region_mismatch'],
    [-5, 'rental_not_found'],
    [2_000_000_000, 'rental_not_found'],
    [Number.MAX_SAFE_INTEGER, 'rental_not_found'],
  ] as const
  for (const [id, reason] of cases) {
    const reply = await ada.call('POST', `${path}/attach`, { storageVolumeId: kept, rentalIds: [...metal, id] })
    expect([id, reply.status, reply.body.reason]).toEqual([id, 400, reason])
    expect(reply.body.issues[0].path).toEqual(['rentalIds', 2])
  }
  const atCreate = await ada.call('POST', path, { ...order, rentalIds: [...metal, far.id] })
  expect([atCreate.status, atCreate.body.reason]).toEqual([400, 'region_mismatch'])
  expect(await fingerprint(journey.app)).toEqual(before)
})

test('cannot be deleted while attached; once deleted it is free and gone', async () => {
  const id = await make({ label: 'scratch', rentalIds: [metal[0]] })
  await journey.pass()
  const attached = await ada.call('POST', `${path}/terminate`, { storageVolumeId: id })
  expect([attached.status, attached.body.reason]).toEqual([400, 'volume_attached'])
  await journey.advance(HOUR_MS)
  await succeed(ada.call, 'POST', `${path}/detach`, { storageVolumeId: id })
  await journey.pass()
  const deleted = await succeed(ada.call, 'POST', `${path}/terminate`, { storageVolumeId: id })
  expect(deleted).toEqual({ message: 'Storage volume is being deleted', storageVolumeId: id })
  await journey.pass()
  expect(await find(id)).toBeUndefined()
  expect(await chargedFor(ada.call, { volumeId: id })).toBe(usd('0.2048'))
  expect(await eventTypesOf(ada.call, `volume:${id}`)).toEqual([
    'volume.created',
    'volume.active',
    'volume.attached',
    'volume.detached',
    'volume.deleting',
    'volume.deleted',
  ])
  const gone = await ada.call('POST', `${path}/terminate`, { storageVolumeId: id })
  expect([gone.status, gone.body.reason]).toEqual([404, 'volume_not_found'])
})

test('unpaid, it is kept for a week: a payment resumes it, otherwise its data is deleted', async () => {
  const poor = await journey.account({ usd: '0.5' })
  const id = await make({ label: 'unpaid' }, poor.call)
  await journey.pass()
  await journey.advance(3 * HOUR_MS)
  expect(await find(id, poor.call)).toMatchObject({ status: 'inactive', meta: { termination_reason: 'balance_empty' } })
  // The rest is less than a millisecond costs.
  const { balanceUsd } = await succeed(poor.call, 'GET', '/v2/customer/balance')
  expect(usd(balanceUsd)).toBeLessThan(costOfSpan(usd('0.2048'), 1))
  const credit = { amountUsd: '1', reason: 'paid again' }
  await succeed(journey.operator, 'POST', `/v2/operator/accounts/${poor.id}/credit`, credit)
  await journey.advance(60_000)
  expect(await find(id, poor.call)).toMatchObject({ status: 'active', meta: {} })
  await journey.advance(5 * HOUR_MS)
  expect(await find(id, poor.call)).toMatchObject({ status: 'inactive' })
  await journey.advance(7 * DAY_MS)
  await journey.advance(60_000)
  expect(await find(id, poor.call)).toBeUndefined()
  expect(await eventTypesOf(poor.call, `volume:${id}`)).toEqual([
    'volume.created',
    'volume.active',
    'volume.suspended',
    'volume.resumed',
    'volume.suspended',
    'volume.deleting',
    'volume.deleted',
  ])
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})
