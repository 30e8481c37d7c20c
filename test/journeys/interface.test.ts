/**
 * The interface as documented: every operation once, in the document's order, as a customer's first client would send
 * it, with response fields and values compared to the document's tables.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HOUR_MS } from '../../src/base/instant.ts'
import { LIST_LAG_MS, checkLedgerAndEngines, startJourney, succeed, type Journey } from '../harness/journey.ts'
import type { Reply } from '../harness/exchange.ts'
import type { Call } from '../harness/server.ts'
import { forgetRequests, writeRequest } from '../harness/ended-request.ts'
import { nanoUsdOf } from '../../src/base/money.ts'

const onDemand = '/v2/alpha/on-demand'
/** The required fields of each table. */
const rentalFields =
  'id createdAt updatedAt deletedAt userId orgId startedAt terminatedAt externalId rentalId providerData rentalType name ' +
  'label region convertToOnDemandOnExpiry managedK8sClusterId gpuType gpuCount'
const activeFields = `${rentalFields} currentTerm gpuFormFactor nodes connectionType createdBy supportsFeature status attachedStorage`
const volumeFields =
  'id createdAt updatedAt deletedAt userId orgId startedAt terminatedAt externalId sizeGb label costPerHour region ' +
  'storageVolumeId meta status attachedRentals sizeInGb vip'
const machineFields =
  'id status hardware instances location network gpus_total gpus_reserved has_persistent_storage supplier_id pricing ' +
  'reserved cluster_name'

const fieldsOf = (value: object): string[] => Object.keys(value).sort()
const named = (fields: string): string[] => fields.split(' ').sort()
const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)

let journey: Journey
let ada: { id: string; key: string; call: Call }
let volumeId: number
let metalId: number
beforeAll(async () => {
  journey = await startJourney()
  ada = await journey.account({ usd: '500' })
  // Resources the first operations of the document need, but only later ones create.
  const region = 'us-central-1'
  volumeId = (
    await succeed(ada.call, 'POST', `${onDemand}/storage-volumes`, { region, label: 'models', sizeInGb: 256 })
  ).storageVolumeId
  metalId = (
    await succeed(ada.call, 'POST', `${onDemand}/bare-metal-rentals`, { gpuCount: 8, networkType: 'infiniband' })
  ).id
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
})
afterAll(() => journey.close())

describe('v2', () => {
  test('GET /v2/openapi.json', async () => {
    const description = await succeed(ada.call, 'GET', '/v2/openapi.json')
    expect(description.info.version).toBe('2.0.0')
    expect(Object.keys(description.components.securitySchemes)).toEqual(['Authorization'])
    for (const code of ['BAD_REQUEST', 'UNAUTHORIZED', 'FORBIDDEN', 'NOT_FOUND', 'INTERNAL_SERVER_ERROR']) {
      expect(description.components.schemas).toHaveProperty([`error.${code}`])
    }
    expect((await journey.anonymous('GET', '/v2/openapi.json')).status).toBe(401)
  })

  test('POST /v2/usage/request-cost', async () => {
    const { db } = journey.app.database
    await writeRequest(db, {
      requestId: 'req_one',
      accountId: ada.id,
      at: journey.clock.now(),
      cost: nanoUsdOf(1234567n),
    })
    const ask = (requestIds: string[]) => ada.call('POST', '/v2/usage/request-cost', { requestIds })
    expect((await ask(['req_none', 'req_one'])).body).toEqual({
      requests: [{ requestId: 'req_one', costNanoUsd: 1_234_567 }],
    })
    expect((await ask(Array.from({ length: 100 }, (_, n) => `req_${n}`))).body).toEqual({ requests: [] })
    expect((await ask(Array.from({ length: 101 }, (_, n) => `req_${n}`))).status).toBe(400)
    await forgetRequests(db)
  })

  test('POST storage-volumes/attach', async () => {
    const attached = await succeed(ada.call, 'POST', `${onDemand}/storage-volumes/attach`, {
      storageVolumeId: volumeId,
      rentalIds: [metalId],
    })
    expect(attached).toEqual({ storageVolumeId: volumeId, attachedRentalIds: [metalId], message: expect.any(String) })
    await journey.pass()
  })

  test('POST bare-metal-rentals', async () => {
    const created = await succeed(ada.call, 'POST', `${onDemand}/bare-metal-rentals`, {
      networkType: 'ethernet',
      gpuCount: 8,
    })
    const { meta: _, ...record } = created
    expect(fieldsOf(record)).toEqual(named(rentalFields))
    expect(record).toMatchObject({
      id: expect.any(Number),
      createdAt: TIME,
      updatedAt: null,
      deletedAt: null,
      startedAt: null,
      terminatedAt: null,
      rentalType: 'bare-metal',
      label: null,
      region: 'us-central-1',
      convertToOnDemandOnExpiry: true,
      managedK8sClusterId: null,
      gpuType: 'h100',
      gpuCount: 8,
      providerData: {
        providerId: 'mock',
        networkType: 'ethernet',
        gpuFormFactor: 'sxm5',
        resources: {
          cpuModel: 'Intel Xeon Platinum 8480C',
          gpuCount: 8,
          ramGb: 2048,
          storageGb: 30_720,
          vcpuCount: 224,
        },
      },
    })
    expect(record.userId.length).toBeLessThanOrEqual(50)
  })

  test('GET bare-metal-rentals', async () => {
    const rentals = await succeed(ada.call, 'GET', `${onDemand}/bare-metal-rentals`)
    expect(rentals).toHaveLength(2)
    const { meta, ...rental } = rentals.find((one: { id: number }) => one.id === metalId)
    expect(fieldsOf(rental)).toEqual(named(`${activeFields} state actions`))
    const attached = {
      id: volumeId,
      cost_per_hour: 0.0256,
      size_in_gb: 256,
      label: 'models',
      vip: expect.stringMatching(/^198\.51\.100\.\d+$/),
      attached_instance_ids: [metalId],
    }
    expect(meta).toEqual({ attached_storage: [attached], rental_type: 'bare-metal' })
    expect(rental).toMatchObject({
      currentTerm: {
        effectiveAt: TIME,
        termType: 'on-demand',
        costPerHour: 22.32,
        reservedUntil: null,
        reservationEndsAt: null,
        termPeriodDays: null,
        discountPercentage: null,
        originalCostPerHour: null,
      },
      attachedStorage: [attached],
      gpuFormFactor: 'sxm5',
      nodes: [{ cpuModel: 'Intel Xeon Platinum 8480C', gpuCount: 8, ramGb: 2048, storageGb: 30_720, cpuCount: 224 }],
      connectionType: 'infiniband',
      region: 'us-central-1',
      createdBy: { id: rental.userId, name: null, email: 'owner-1@example.test', picture: null },
      supportsFeature: { attachedStorage: true },
      status: 'Running',
    })
  })

  test('POST request-reservation', async () => {
    const reply = await succeed(ada.call, 'POST', `${onDemand}/request-reservation`, { gpuCount: 512 })
    expect(reply).toEqual({ message: expect.stringContaining('512 GPUs') })
  })

  test('POST and GET storage-volumes', async () => {
    const order = { region: 'mock-region', label: 'data_set-1', sizeInGb: 64_000 }
    // 64000 is a multiple of 256.
    const created = await succeed(ada.call, 'POST', `${onDemand}/storage-volumes`, order)
    expect(created).toEqual({
      ...order,
      storageVolumeId: expect.any(Number),
      status: 'inactive',
      attachedRentals: [],
      message: expect.any(String),
    })
    await journey.pass()
    const volumes = await succeed(ada.call, 'GET', `${onDemand}/storage-volumes`)
    expect(volumes).toHaveLength(2)
    for (const volume of volumes)
      expect(fieldsOf(volume)).toEqual(named(`${volumeFields} providerId supports growingToGb mounts nodeName usedGb`))
    expect(volumes.find((one: { id: number }) => one.id === created.storageVolumeId)).toMatchObject({
      sizeGb: 64_000,
      sizeInGb: 64_000,
      costPerHour: 6.4,
      status: 'active',
      meta: {},
    })
  })

  test('POST virtual-machine-rentals', async () => {
    const { meta: _, ...record } = await succeed(ada.call, 'POST', `${onDemand}/virtual-machine-rentals`, {
      gpuCount: 1,
    })
    expect(fieldsOf(record)).toEqual(named(rentalFields))
    expect(record).toMatchObject({
      rentalType: 'virtual-machine',
      region: 'us-central-1',
      gpuType: 'h100',
      gpuCount: 1,
      convertToOnDemandOnExpiry: true,
      providerData: { providerId: 'mock', networkType: 'ethernet', resources: { gpuCount: 1, vcpuCount: 28 } },
    })
  })
})

describe('v1', () => {
  let instance: string

  test('POST /v1/marketplace, without a key', async () => {
    const { instances } = await succeed(journey.anonymous, 'POST', '/v1/marketplace', { filters: {} })
    expect(instances).toHaveLength(28)
    for (const machine of instances) expect(fieldsOf(machine)).toEqual(named(machineFields))
  })

  test('POST /v1/marketplace/instances/create', async () => {
    const { instances } = await succeed(journey.anonymous, 'POST', '/v1/marketplace', {
      filters: { available_only: true },
    })
    const usable = instances.find(
      (machine: { status: string; reserved: boolean }) => machine.status === 'node_ready' && !machine.reserved,
    )
    const created = await succeed(ada.call, 'POST', '/v1/marketplace/instances/create', {
      cluster_name: usable.cluster_name,
      node_name: usable.id,
      gpu_count: 1,
      image: { name: 'nginx', tag: 'latest', port: 80 },
    })
    instance = created.instance_id
    expect(created).toEqual({ status: 'success', instance_name: instance, instance_id: instance })
    const tooMany = { cluster_name: usable.cluster_name, node_name: usable.id, gpu_count: usable.gpus_total }
    expect((await ada.call('POST', '/v1/marketplace/instances/create', tooMany)).status).toBe(400)
    await journey.pass()
    await journey.advance(LIST_LAG_MS)
  })

  test('the list works by POST, as its heading says, and by GET, as its sample does', async () => {
    const listed = await succeed(ada.call, 'POST', '/v1/marketplace/instances')
    expect(listed).toEqual(await succeed(ada.call, 'GET', '/v1/marketplace/instances'))
    expect(listed.instances).toHaveLength(1)
    expect(fieldsOf(listed.instances[0])).toEqual(
      named('id created start end sshCommand portMappings userMetadata instance state actions'),
    )
    expect(fieldsOf(listed.instances[0].instance)).toEqual(named(`${machineFields} gpu_count owner`))
    expect(listed.instances[0]).toMatchObject({ id: instance, start: TIME, end: null, instance: { status: 'online' } })
    expect(listed.instances[0].portMappings).toEqual([{ domain: expect.any(String), protocol: 'tcp', port: 80 }])
  })

  test('GET /v1/marketplace/instances/history and POST …/terminate', async () => {
    expect(await succeed(ada.call, 'GET', '/v1/marketplace/instances/history')).toEqual({ instance_history: [] })
    await journey.advance(HOUR_MS)
    expect(await succeed(ada.call, 'POST', '/v1/marketplace/instances/terminate', { id: instance })).toEqual({
      status: 'success',
    })
    await journey.pass()
    const { instance_history } = await succeed(ada.call, 'GET', '/v1/marketplace/instances/history')
    expect(instance_history).toHaveLength(1)
    expect(fieldsOf(instance_history[0])).toEqual(
      named('instance_name started_at terminated_at price hardware gpu_count'),
    )
    expect(instance_history[0]).toMatchObject({ instance_name: instance, started_at: TIME, terminated_at: TIME })
  })

  test('GET /billing/get_current_balance', async () => {
    const balance = await succeed(ada.call, 'GET', '/billing/get_current_balance')
    // Two bare-metal rentals, a virtual machine and two volumes are running.
    expect(balance).toEqual({
      credits: Number.parseInt(balance.balance_usd.replace('.', '').slice(0, -7), 10),
      balance_usd: expect.stringMatching(/^\d+\.\d{9}$/),
      hourly_spend_usd: '51.155600000',
      empty_at: TIME,
    })
    expect(balance.balance_usd).toBe((await succeed(ada.call, 'GET', '/v2/customer/balance')).balanceUsd)
  })

  test.each([
    ['/v1/chat/completions', { messages: [{ role: 'user', content: 'Hello' }], model: 'no-such-model' }, 'model'],
    [
      '/v1/image/generation',
      { model_name: 'no-such-model', prompt: 'a ship', height: 512, width: 512, backend: 'auto' },
      'model_name',
    ],
    ['/v1/audio/generation', { text: 'Hello', model: 'no-such-model' }, 'model'],
  ])('POST %s with an unknown model names it and is free', async (path, body, param) => {
    const reply: Reply = await ada.call('POST', path, body)
    expect([reply.status, reply.body.reason, reply.body.param]).toEqual([400, 'model_not_found', param])
    const requestId = reply.headers.get('x-inference-request-id') ?? ''
    expect(requestId).not.toBe('')
    expect(await succeed(ada.call, 'POST', '/v2/usage/request-cost', { requestIds: [requestId] })).toEqual({
      requests: [],
    })
  })

  test('the ledger is consistent afterwards', async () => {
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })
})
