/** Bare-metal rentals with their volumes: all or nothing. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fingerprint } from '../harness/fingerprint.ts'
import {
  LIST_LAG_MS,
  eventTypesOf,
  checkLedgerAndEngines,
  startJourney,
  succeed,
  type Journey,
} from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

const path = '/v2/alpha/on-demand/bare-metal-rentals'
const volumes = '/v2/alpha/on-demand/storage-volumes'
/** Eight H100 with InfiniBand cost 8 × $2.79/hr; storage costs $0.0001 per GB-hour. */
const HOURLY = 22.32

let journey: Journey
let ada: { id: string; key: string; call: Call }
beforeAll(async () => {
  journey = await startJourney()
  ada = await journey.account({ usd: '1000' })
})
afterAll(() => journey.close())

const order = { gpuCount: 8, networkType: 'infiniband' }
const rent = (more: object = {}, by: Call = ada.call) => succeed(by, 'POST', path, { ...order, ...more })
const start = async () => {
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
}
const list = () => succeed(ada.call, 'GET', path)
const end = async (rentalId: number) => {
  await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId })
  await journey.pass()
}

test('with a new volume: both start, the volume is mounted, and it outlives the machine', async () => {
  const storageVolume = { isNew: true, label: 'datasets', sizeInGb: 512 }
  const { id } = await rent({ storageVolume, cudaVersion: 'cuda12.8', label: 'training' })
  await start()
  const [rental] = await list()
  const [volume] = await succeed(ada.call, 'GET', volumes)
  const attached = {
    id: volume.id,
    cost_per_hour: 0.0512,
    size_in_gb: 512,
    label: 'datasets',
    vip: volume.vip,
    attached_instance_ids: [id],
  }
  expect(rental).toMatchObject({
    id,
    status: 'Running',
    rentalType: 'bare-metal',
    region: 'us-central-1',
    connectionType: 'infiniband',
    gpuFormFactor: 'sxm5',
    currentTerm: { termType: 'on-demand', costPerHour: HOURLY },
    supportsFeature: { attachedStorage: true },
    attachedStorage: [attached],
    meta: { attached_storage: [attached] },
    createdBy: { id: rental.userId, email: 'owner-1@example.test', picture: null },
    nodes: [{ cpuModel: 'Intel Xeon Platinum 8480C', gpuCount: 8, ramGb: 2048, storageGb: 30_720, cpuCount: 224 }],
  })
  expect(volume).toMatchObject({
    status: 'active',
    sizeGb: 512,
    sizeInGb: 512,
    costPerHour: 0.0512,
    attachedRentals: [id],
  })
  expect(volume.vip).toMatch(/^198\.51\.100\./)
  expect(await eventTypesOf(ada.call, `volume:${volume.id}`)).toEqual([
    'volume.created',
    'volume.active',
    'volume.attached',
  ])

  await end(id)
  expect(await list()).toEqual([])
  const [kept] = await succeed(ada.call, 'GET', volumes)
  expect(kept).toMatchObject({ id: volume.id, status: 'active', attachedRentals: [] })
})

test('with an existing volume: it is mounted on the new machine', async () => {
  const [volume] = await succeed(ada.call, 'GET', volumes)
  const { id } = await rent({ storageVolume: { isNew: false, id: volume.id } })
  await start()
  const [rental] = await list()
  expect(rental).toMatchObject({ id, attachedStorage: [{ id: volume.id, attached_instance_ids: [id] }] })
  const attached = await ada.call('POST', `${volumes}/terminate`, { storageVolumeId: volume.id })
  expect([attached.status, attached.body.reason]).toEqual([400, 'volume_attached'])
  await end(id)
})

test('sixteen GPUs are two machines of one cluster with a network between them', async () => {
  const { id } = await rent({ gpuCount: 16 })
  await start()
  const [rental] = await list()
  expect(rental).toMatchObject({ id, gpuCount: 16, currentTerm: { costPerHour: 2 * HOURLY } })
  expect(rental.nodes).toHaveLength(2)
  expect(rental.providerData.nodeNetworking).toHaveLength(2)
  expect(rental.providerData.sshNetworking).toHaveLength(2)
  const { machines } = await succeed(journey.operator, 'GET', '/v2/operator/machines?limit=1000')
  const busy = (machines as Array<{ gpusInUse: number; clusterName: string }>).filter((one) => one.gpusInUse > 0)
  expect(busy.map((one) => [one.clusterName, one.gpusInUse])).toEqual([
    ['mock-usc1-bm-h100-infiniband', 8],
    ['mock-usc1-bm-h100-infiniband', 8],
  ])
  await end(id)
})

test('rejects an order larger than any cluster, even if several clusters together have the GPUs', async () => {
  const reply = await ada.call('POST', path, { ...order, gpuCount: 40 })
  expect([reply.status, reply.body.reason]).toEqual([400, 'no_capacity'])
})

test('rents nothing when the volume is in another region, missing or another account’s', async () => {
  const elsewhere = await succeed(ada.call, 'POST', volumes, { region: 'eu-west-3', label: 'far-away', sizeInGb: 256 })
  const bob = await journey.account({ usd: '100' })
  const his = await succeed(bob.call, 'POST', volumes, { region: 'us-central-1', label: 'his-own', sizeInGb: 256 })
  await journey.pass()
  const before = await fingerprint(journey.app)
  const cases = [
    [elsewhere.storageVolumeId, 'region_mismatch'],
    [his.storageVolumeId, 'volume_not_found'],
    [2_000_000_000, 'volume_not_found'],
    [Number.MAX_SAFE_INTEGER, 'volume_not_found'],
  ] as const
  for (const [id, reason] of cases) {
    const reply = await ada.call('POST', path, { ...order, storageVolume: { isNew: false, id } })
    expect([reply.status, reply.body.reason, reply.body.issues[0].path]).toEqual([400, reason, ['storageVolume', 'id']])
  }
  expect(await fingerprint(journey.app)).toEqual(before)
})

test('rents nothing when the balance covers the machine but not the volume', async () => {
  const carl = await journey.account({ usd: '22.33' })
  const before = await fingerprint(journey.app)
  const storageVolume = { isNew: true, label: 'too-much', sizeInGb: 1024 }
  const reply = await carl.call('POST', path, { ...order, storageVolume })
  expect([reply.status, reply.body.reason]).toEqual([403, 'insufficient_balance'])
  expect(await fingerprint(journey.app)).toEqual(before)
  const { id } = await rent({}, carl.call)
  expect(await succeed(carl.call, 'GET', '/v2/customer/balance')).toMatchObject({
    availableUsd: '0.010000000',
    heldUsd: '22.320000000',
  })
  await succeed(carl.call, 'POST', `${path}/terminate`, { rentalId: id })
  expect(await succeed(carl.call, 'GET', '/v2/customer/balance')).toMatchObject({ availableUsd: '22.330000000' })
})

test('cancels a rental immediately when the engine has not started it; the ledger agrees', async () => {
  const { id } = await rent()
  await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: id, reason: 'changed my mind' })
  const rental = await succeed(ada.call, 'GET', `/v2/alpha/on-demand/rentals/${id}`)
  expect(rental).toMatchObject({
    status: 'Terminated',
    statusReason: 'customer_request',
    meta: { termination_reason: 'changed my mind' },
    costSoFarUsd: '0.000000000',
  })
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

test('a price cap applies to the machine and not to the volume; a raised price rejects both', async () => {
  const storageVolume = { isNew: true, label: 'scratch', sizeInGb: 512 }
  const upTo = (maxCostPerHourUsd: string) => ada.call('POST', path, { ...order, storageVolume, maxCostPerHourUsd })
  const taken = await upTo(String(HOURLY))
  expect(taken.status).toBe(200)
  await end(taken.body.id)
  const row = { machineType: 'bare-metal', region: 'us-central-1', gpuType: 'h100', networkType: 'infiniband' }
  const gpus = [{ ...row, gpuCount: 8, perGpuHourUsd: '2.80', enabled: true }]
  await succeed(journey.operator, 'PUT', '/v2/operator/price-book', { gpus, reason: 'power is dearer' })
  const before = await fingerprint(journey.app)
  const refused = await upTo(String(HOURLY))
  expect([refused.status, refused.body.reason]).toEqual([400, 'price_changed'])
  expect(refused.body.message).toContain('$22.40')
  expect(await fingerprint(journey.app)).toEqual(before)
})
