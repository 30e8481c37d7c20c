/** Volumes of orders: which are refused and why, that they are attached with the order or not at all, and growth. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS } from '../../src/base/instant.ts'
import { costOfSpan, usd } from '../../src/base/money.ts'
import { volumePricePerHour } from '../../src/domain/volume.ts'
import {
  chargedFor,
  checkLedgerAndEngines,
  eventTypesOf,
  LIST_LAG_MS,
  startJourney,
  succeed,
  type Journey,
} from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

const base = '/v2/alpha/on-demand'
const volumes = `${base}/storage-volumes`
const PER_GB_HOUR = usd('0.0001')
/** The node is outside of the regions for storage: any price will do. */
const OWN_REGION = 'eu-north-2'
const NODE = { cluster_name: 'mock-fra', node_name: 'mock-fra-h100pcie-01', gpu_count: 1 }

let journey: Journey
let ada: { id: string; key: string; call: Call }
let eve: { id: string; key: string; call: Call }
beforeAll(async () => {
  journey = await startJourney()
  ada = await journey.account({ usd: '1000' })
  eve = await journey.account({ usd: '1000' })
})
afterAll(() => journey.close())

const rent = (more: object, call = ada.call) => call('POST', '/v1/marketplace/instances/create', { ...NODE, ...more })
const make = async (more: object = {}, call = ada.call): Promise<number> => {
  const order = { region: OWN_REGION, label: 'datasets', sizeInGb: 512, nodeName: NODE.node_name, ...more }
  const { storageVolumeId } = await succeed(call, 'POST', volumes, order)
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
  return storageVolumeId
}
const find = async (id: number) =>
  (await succeed(ada.call, 'GET', volumes)).find((volume: { id: number }) => volume.id === id)
const refusalOf = async (mounts: unknown) => {
  const { status, body } = await rent({ volumes: mounts })
  return [status, body.reason, body.param]
}

test('an order with a volume that it cannot have is refused, names the field and rents nothing', async () => {
  const own = await make()
  const elsewhere = await make({ nodeName: undefined, region: 'jp-east-1' })
  const of = await make({}, eve.call)
  const before = await succeed(ada.call, 'GET', '/v1/marketplace/instances')
  const mount = { volumeId: own, path: '/data' }
  expect(await refusalOf([{ volumeId: of, path: '/data' }])).toEqual([400, 'volume_not_found', 'volumes.0.volumeId'])
  const machine = { region: 'mock-region', gpuCount: 1, volumes: [{ volumeId: elsewhere, path: '/data' }] }
  const vm = await ada.call('POST', `${base}/virtual-machine-rentals`, machine)
  expect([vm.status, vm.body.reason]).toEqual([400, 'region_mismatch'])
  expect(await refusalOf([mount, { ...mount, path: '/more' }])).toEqual([400, 'duplicate_volume', 'volumes.1.volumeId'])
  expect(await refusalOf([mount, { volumeId: elsewhere, path: '/data/in' }])).toEqual([
    400,
    'mount_path_in_use',
    'volumes.1.path',
  ])
  for (const path of ['/', 'data', '/proc/self', '/dev', '/a b', '/a/../b']) {
    const { status } = await rent({ volumes: [{ volumeId: own, path }] })
    expect([path, status]).toEqual([path, 400])
  }
  expect(await succeed(ada.call, 'GET', '/v1/marketplace/instances')).toEqual(before)
  expect((await find(own)).attachedRentals).toEqual([])
})

test('a volume is attached with its order, cannot be deleted or detached, and survives the rental', async () => {
  const id = await make()
  const { body } = await rent({ volumes: [{ volumeId: id, path: '/data', readOnly: true }] })
  const name: string = body.instance_id
  const rentalId: number = (await succeed(ada.call, 'GET', `/v2/rentals/${name}`)).id
  expect(await find(id)).toMatchObject({
    attachedRentals: [rentalId],
    mounts: [{ rentalId, kind: 'container', name, path: '/data', readOnly: true }],
    supports: {
      kinds: ['bare-metal', 'virtual-machine', 'container'],
      attach: ['bare-metal'],
      shared: true,
      grow: true,
      clone: true,
    },
  })
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
  expect(await succeed(ada.call, 'GET', `/v2/rentals/${name}/volumes`)).toEqual({
    volumes: [
      { storageVolumeId: id, label: 'datasets', sizeInGb: 512, path: '/data', readOnly: true, state: 'attached' },
    ],
    supports: { order: true, attach: false, mount: true },
  })
  const refusals = [
    await ada.call('POST', `${volumes}/terminate`, { storageVolumeId: id }),
    await ada.call('POST', `${volumes}/detach`, { storageVolumeId: id }),
    await ada.call('DELETE', `/v2/rentals/${name}/volumes/${id}`),
    await ada.call('POST', `/v2/rentals/${name}/volumes`, { storageVolumeId: await make(), path: '/more' }),
    await ada.call('POST', `${volumes}/attach`, { storageVolumeId: id, rentalIds: [rentalId] }),
  ]
  expect(refusals.map(({ body: { reason } }) => reason)).toEqual([
    'volume_attached',
    'volume_fixed',
    'volume_fixed',
    'volume_fixed',
    'not_bare_metal',
  ])
  // An order that fails takes nothing away from the rental that has the volume.
  const failed = await rent({ gpu_count: 8, volumes: [{ volumeId: id, path: '/data' }], spending_limit_usd: '-1' })
  expect(failed.status).toBe(400)
  expect((await find(id)).attachedRentals).toEqual([rentalId])
  await succeed(ada.call, 'POST', '/v1/marketplace/instances/terminate', { id: name })
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
  expect(await find(id)).toMatchObject({ status: 'active', attachedRentals: [], mounts: [] })
  await succeed(ada.call, 'POST', `${volumes}/terminate`, { storageVolumeId: id })
})

test('a volume grows: the old price ends and the new one begins at the same instant', async () => {
  const id = await make({ nodeName: undefined })
  const startedAt = Date.parse((await find(id)).startedAt)
  await journey.advance(HOUR_MS)
  const smaller = await ada.call('PATCH', `${volumes}/${id}`, { sizeInGb: 512 })
  expect([smaller.status, smaller.body.reason]).toEqual([400, 'volume_not_larger'])
  expect((await eve.call('PATCH', `${volumes}/${id}`, { sizeInGb: 1_024 })).status).toBe(404)
  expect(await succeed(ada.call, 'PATCH', `${volumes}/${id}`, { sizeInGb: 1_024 })).toMatchObject({
    sizeInGb: 512,
    growingToGb: 1_024,
    costPerHourUsd: '0.102400000',
  })
  const again = await ada.call('PATCH', `${volumes}/${id}`, { sizeInGb: 2_048 })
  expect([again.status, again.body.reason]).toEqual([400, 'volume_growing'])
  await journey.pass()
  expect(await find(id)).toMatchObject({ sizeInGb: 1_024, growingToGb: null, costPerHour: 0.1024 })
  expect(await eventTypesOf(ada.call, `volume:${id}`)).toContain('volume.grown')
  const [first, second] = await journey.app.database.db
    .selectFrom('segment')
    .selectAll()
    .where('volume_id', '=', id)
    .orderBy('started_at')
    .execute()
  if (first === undefined || second === undefined || first.ended_at === null) throw new Error('there are two segments')
  expect([first.started_at, first.ended_at]).toEqual([startedAt, second.started_at])
  await journey.advance(HOUR_MS)
  await succeed(ada.call, 'POST', `${volumes}/terminate`, { storageVolumeId: id })
  const end = journey.clock.now()
  const before = costOfSpan(volumePricePerHour(PER_GB_HOUR, 512), first.ended_at - first.started_at)
  const after = costOfSpan(volumePricePerHour(PER_GB_HOUR, 1_024), end - second.started_at)
  expect(await chargedFor(ada.call, { volumeId: id })).toBe(before + after)
  await journey.pass()
  await checkLedgerAndEngines(journey)
})

test('a volume whose engine fails again and again keeps its size, with a reason (issue 31, 17)', async () => {
  const id = await make({ nodeName: undefined })
  const engine = journey.app.drivers.get('mock')?.volumes
  if (engine?.grow === undefined) throw new Error('the simulated engine grows volumes')
  const grow = engine.grow.bind(engine)
  Object.assign(engine, { grow: () => Promise.reject(new Error('the storage has not grown yet')) })
  await succeed(ada.call, 'PATCH', `${volumes}/${id}`, { sizeInGb: 1_024 })
  for (let n = 0; n < 20 && (await find(id)).growingToGb !== null; n += 1) await journey.advance(MINUTE_MS)
  Object.assign(engine, { grow })
  expect(await find(id)).toMatchObject({ status: 'active', sizeInGb: 512, growingToGb: null, costPerHour: 0.0512 })
  const { events } = await succeed(ada.call, 'GET', `/v2/events?subject=volume:${id}`)
  const failed = events.find(({ type }: { type: string }) => type === 'volume.grow_failed')
  expect(failed.data).toMatchObject({ sizeInGb: 512, refusedGb: 1_024, reason: 'engine_failure' })
  await succeed(ada.call, 'PATCH', `${volumes}/${id}`, { sizeInGb: 1_024 })
  await journey.pass()
  expect(await find(id)).toMatchObject({ sizeInGb: 1_024, growingToGb: null })
  await succeed(ada.call, 'POST', `${volumes}/terminate`, { storageVolumeId: id })
})

test('attaching the volume of another account tells nothing about it, nor does an id that cannot exist', async () => {
  const id = await make()
  const machine = { region: 'mock-region', gpuCount: 1 }
  const { id: own } = await succeed(eve.call, 'POST', `${base}/virtual-machine-rentals`, machine)
  for (const storageVolumeId of [id, 2_147_483_648]) {
    const { status, body } = await eve.call('POST', `/v2/rentals/${own}/volumes`, { storageVolumeId })
    expect([status, body.reason]).toEqual([400, 'volume_not_found'])
  }
})
