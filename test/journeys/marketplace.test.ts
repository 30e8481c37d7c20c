/** The marketplace from both sides: a customer finds, rents and ends instances; a supplier sets prices and earns. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HOUR_MS } from '../../src/base/instant.ts'
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
import { emptyWorkload } from '../../src/domain/workload.ts'
import { usd } from '../../src/base/money.ts'
import type { Call } from '../harness/server.ts'

const instances = '/v1/marketplace/instances'

let journey: Journey
let ada: { id: string; key: string; call: Call }
let supplier: { id: string; key: string; call: Call }
beforeAll(async () => {
  journey = await startJourney()
  ada = await journey.account({ usd: '1000' })
  supplier = await journey.account({ platformFeePercentage: 20 })
})
afterAll(() => journey.close())

interface Machine {
  readonly id: string
  readonly gpus_total: number
  readonly gpus_reserved: number
}
const search = async (filters: object): Promise<Machine[]> =>
  (await succeed(journey.anonymous, 'POST', '/v1/marketplace', { filters })).instances
const namesOf = async (filters: object): Promise<string[]> => (await search(filters)).map((machine) => machine.id)
const rent = async (node: string, more: object = {}): Promise<string> => {
  const cluster_name = node.split('-').slice(0, 2).join('-')
  const body = { cluster_name, node_name: node, gpu_count: 1, ...more }
  return (await succeed(ada.call, 'POST', `${instances}/create`, body)).instance_id
}
const start = async () => {
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
}
const end = (id: string) => succeed(ada.call, 'POST', `${instances}/terminate`, { id })

test('lists machines without a key, with their hardware and price', async () => {
  const [machine] = await search({ cluster_name: 'mock-fra', gpu_model: 'h100' })
  const gpu = { clock_speed: 1755, compute_power: 756, ram: 81_559, interface: 'PCIe 5.0 x16' }
  expect(machine).toEqual({
    id: 'mock-fra-h100pcie-01',
    status: 'node_ready',
    hardware: {
      cpus: [{ hardware_type: 'cpu', model: 'AMD EPYC 9554', cores: 128, virtual_cores: 256 }],
      gpus: Array.from({ length: 4 }, () => ({ hardware_type: 'gpu', model: 'NVIDIA-H100-PCIe-80GB', ...gpu })),
      storage: [{ hardware_type: 'storage', capacity: 15_360 }],
      ram: [{ hardware_type: 'ram', capacity: 1152 }],
    },
    instances: [],
    location: { region: 'eu-central' },
    network: { type: 'ethernet', simulated: true, simulation: 'machine' },
    gpus_total: 4,
    gpus_reserved: 0,
    has_persistent_storage: true,
    supplier_id: 'mock-fleet-east',
    pricing: { price: { amount: 1.79, period: 'hourly', agent: 'platform' } },
    reserved: false,
    cluster_name: 'mock-fra',
  })
})

test('filters work alone and combined', async () => {
  const all = await search({})
  expect(all).toHaveLength(28)
  expect(await namesOf({ gpu_model: 'B200' })).toEqual(['mock-pdx-b200-01', 'mock-pdx-b200-02'])
  expect(await namesOf({ region: 'ap-south', max_price: 0.17 })).toEqual(['mock-sin-rtx3090-01'])
  expect(await namesOf({ cluster_name: 'mock-sin', min_gpus_available: 4 })).toEqual([
    'mock-sin-a100-01',
    'mock-sin-a100-02',
  ])
  expect(await namesOf({ min_gpu_ram: 180_000 })).toEqual(await namesOf({ gpu_model: 'b200' }))
  const [east, west] = [
    await search({ supplier_id: 'mock-fleet-east' }),
    await search({ supplier_id: 'mock-fleet-west' }),
  ]
  expect([east.length, west.length]).toEqual([15, 13])
  const [keeps, loses] = [
    await search({ has_persistent_storage: true }),
    await search({ has_persistent_storage: false }),
  ]
  expect(keeps.length + loses.length).toBe(28)
  // One of its four GPUs is unhealthy and not for sale.
  const [unwell] = await search({ cluster_name: 'mock-pdx', gpu_model: '4090', available_only: true, max_price: 0.35 })
  expect(unwell).toMatchObject({ id: 'mock-pdx-rtx4090-01', gpus_reserved: 0 })
  expect(all.find((machine) => machine.id === 'mock-pdx-rtx4090-02')).toMatchObject({ gpus_total: 4, gpus_reserved: 1 })
  expect(await namesOf({ gpu_model: '%' })).toEqual([])
  expect(await namesOf({ max_price: 0 })).toEqual([])
})

test('pages through a long list without gaps', async () => {
  const seen: string[] = []
  let cursor = ''
  do {
    const page = await succeed(journey.anonymous, 'POST', `/v1/marketplace?limit=10${cursor}`, { filters: {} })
    seen.push(...page.instances.map((machine: Machine) => machine.id))
    cursor = page.next_cursor === undefined ? '' : `&cursor=${page.next_cursor}`
  } while (cursor !== '')
  expect(seen).toEqual(await namesOf({}))
})

let first: string

test('creates an instance immediately, with the count as a string and no image', async () => {
  const node = { cluster_name: 'mock-iad', node_name: 'mock-iad-h100-01' }
  const created = await succeed(ada.call, 'POST', `${instances}/create`, { ...node, gpu_count: '3', image: null })
  first = created.instance_id
  expect(created).toEqual({ status: 'success', instance_name: first, instance_id: first })
  expect(first).toMatch(/^[a-z]+-[a-z]+-[a-z]+$/)
  const { instances: before } = await succeed(ada.call, 'GET', instances)
  expect(before).toMatchObject([{ id: first, start: null, sshCommand: '', instance: { status: 'creating' } }])
  await start()
  const listed = await succeed(ada.call, 'GET', instances)
  expect(await succeed(ada.call, 'POST', instances)).toEqual(listed)
  expect(listed.instances).toMatchObject([
    {
      id: first,
      created: '2026-01-01T12:00:00.000Z',
      start: journey.now(),
      end: null,
      sshCommand: expect.stringMatching(/^ssh ubuntu@198\.18\.\d+\.\d+ -p 2\d{4}|3\d{4}$/),
      portMappings: [],
      userMetadata: {},
      instance: {
        id: 'mock-iad-h100-01',
        status: 'online',
        gpu_count: 3,
        gpus_total: 3,
        owner: ada.id,
        pricing: { price: { amount: 2.19, period: 'hourly', agent: 'platform' } },
        hardware: {
          cpus: [{ cores: 42, virtual_cores: 84 }],
          ram: [{ capacity: 768 }],
          storage: [{ capacity: 50 }],
        },
      },
    },
  ])
  const [machine] = await search({ cluster_name: 'mock-iad', gpu_model: 'h100' })
  expect(machine).toMatchObject({ gpus_total: 8, gpus_reserved: 3, reserved: false, instances: [{ id: first }] })
})

test('an image publishes its ports, and a full machine is marked reserved', async () => {
  const image = { name: 'pytorch/pytorch', tag: '2.4', port: 8888, ports: [6006, 7860] }
  const id = await rent('mock-pdx-rtx3090-01', { gpu_count: 2, image, label: 'notebook' })
  await start()
  const { instances: mine } = await succeed(ada.call, 'GET', instances)
  const one = mine.find((instance: { id: string }) => instance.id === id)
  expect(one.userMetadata).toEqual({ label: 'notebook' })
  expect(one.portMappings.map((mapping: { port: number }) => mapping.port)).toEqual([8888, 6006, 7860])
  expect(await namesOf({ gpu_model: '3090', cluster_name: 'mock-pdx', available_only: true })).not.toContain(
    'mock-pdx-rtx3090-01',
  )
  const full = (await search({ gpu_model: '3090' })).find((machine) => machine.id === 'mock-pdx-rtx3090-01')
  expect(full).toMatchObject({ reserved: true, gpus_reserved: 2 })
  const body = { cluster_name: 'mock-pdx', node_name: 'mock-pdx-rtx3090-01', gpu_count: 1 }
  const late = await ada.call('POST', `${instances}/create`, body)
  expect([late.status, late.body.reason, late.body.error.code]).toEqual([400, 'no_capacity', 400])
  await end(id)
  await journey.pass()
})

test('a node of another cluster or an unknown node is not found', async () => {
  for (const [cluster_name, node_name] of [
    ['mock-fra', 'mock-iad-h100-01'],
    ['mock-iad', 'nowhere'],
    ['mock-usc1-bm-h100-infiniband', 'mock-usc1-h100-01'],
  ]) {
    const reply = await ada.call('POST', `${instances}/create`, { cluster_name, node_name, gpu_count: 1 })
    expect([reply.status, reply.body.reason, reply.body.param]).toEqual([404, 'node_not_found', 'node_name'])
  }
  const poor = await journey.account({ usd: '2.18' })
  const node = { cluster_name: 'mock-iad', node_name: 'mock-iad-h100-01', gpu_count: 1 }
  const reply = await poor.call('POST', `${instances}/create`, node)
  expect([reply.status, reply.body.type, reply.body.code]).toEqual([402, 'insufficient_balance', 402])
  const inThePast = { ...node, auto_terminate_at: '2020-01-01T00:00:00Z' }
  const past = await ada.call('POST', `${instances}/create`, inThePast)
  expect([past.status, past.body.reason, past.body.param]).toEqual([400, 'time_in_past', 'auto_terminate_at'])
})

test('an instance ends, ending it again succeeds, and it is in the history', async () => {
  await journey.advance(HOUR_MS)
  const endedAt = journey.now()
  expect(await end(first)).toEqual({ status: 'success' })
  await journey.pass()
  expect(await end(first)).toEqual({ status: 'success' })
  expect(await succeed(ada.call, 'GET', instances)).toEqual({ instances: [] })
  const { instance_history } = await succeed(ada.call, 'GET', `${instances}/history`)
  expect(instance_history).toMatchObject([
    { gpu_count: 2, price: { amount: 0.19 } },
    {
      instance_name: first,
      started_at: '2026-01-01T12:00:01.000Z',
      terminated_at: endedAt,
      price: { amount: 2.19, period: 'hourly', agent: 'platform' },
      gpu_count: 3,
      hardware: { ram: [{ capacity: 768 }] },
    },
  ])
  const unknown = await ada.call('POST', `${instances}/terminate`, { id: 'never-was-there' })
  expect(unknown.status).toBe(404)
  expect(unknown.body).toMatchObject({ error_code: 105, code: 404, error: { code: 404 }, type: 'not_found_error' })
})

test('a supplier’s price change leaves running instances alone; both sides are paid to the nano-dollar', async () => {
  const node = 'mock-sin-rtx3090-01'
  const change = (by: Call, path: string, body: object) => succeed(by, 'PATCH', `${path}/${node}`, body)
  await change(journey.operator, '/v2/operator/machines', { supplierId: supplier.id, reason: 'bought' })
  await change(supplier.call, '/v2/supply/machines', { pricePerGpuHourUsd: '0.333333333' })
  const id = await rent(node)
  await start()
  await change(supplier.call, '/v2/supply/machines', { pricePerGpuHourUsd: '9.99', listed: false })
  expect(await namesOf({ gpu_model: '3090', cluster_name: 'mock-sin' })).toEqual([])
  const offSale = { cluster_name: 'mock-sin', node_name: node, gpu_count: 1 }
  expect((await ada.call('POST', `${instances}/create`, offSale)).body.reason).toBe('node_not_ready')
  await journey.advance(100 * 60_000)
  const { instances: mine } = await succeed(ada.call, 'GET', instances)
  expect(mine).toMatchObject([{ id, instance: { pricing: { price: { amount: 0.333333333 } } } }])
  await end(id)
  await journey.pass()

  // 100 minutes at 0.333333333: 0.555555555, of which Berth keeps a fifth; fractions of a nano-dollar round down.
  const { byMachine, ...earnings } = await succeed(supplier.call, 'GET', '/v2/supply/earnings?days=2')
  const earnedUsd = '0.444444444'
  const today = journey.now().slice(0, 10)
  expect(earnings).toMatchObject({ unpaidUsd: earnedUsd, paidOutUsd: '0.000000000', platformFeePercentage: 20 })
  expect(earnings).toMatchObject({ earnedUsd, to: today, machines: [{ id: node, earnedUsd }] })
  expect(earnings.byDay).toEqual([
    { day: earnings.from, earnedUsd: '0.000000000', gpuHoursSold: 0 },
    { day: today, earnedUsd, gpuHoursSold: 1.666667 },
  ])
  const { gpuHours, occupancyPercentage, ...sold } = byMachine.find((one: { id: string }) => one.id === node)
  expect(sold).toEqual({ id: node, earnedUsd, gpuHoursSold: 1.666667 })
  expect(occupancyPercentage).toBeCloseTo((100 * 1.666667) / gpuHours, 2)
  const { rentals } = await succeed(journey.operator, 'GET', `/v2/operator/rentals?accountId=${ada.id}`)
  expect(await chargedFor(ada.call, { rentalId: rentals[0].id })).toBe(usd('0.555555555'))
  expect(await eventTypesOf(ada.call, `rental:${rentals[0].id}`)).toContain('rental.terminated')

  const payout = { amountUsd: '0.4', reason: 'wire of January' }
  const paid = await succeed(journey.operator, 'POST', `/v2/operator/accounts/${supplier.id}/payout`, payout)
  expect(paid).toMatchObject({ unpaidUsd: '0.044444444' })
  const tooMuch = await journey.operator('POST', `/v2/operator/accounts/${supplier.id}/payout`, payout)
  expect([tooMuch.status, tooMuch.body.reason]).toEqual([403, 'insufficient_balance'])
  const { houseUsd } = await succeed(journey.operator, 'GET', '/v2/operator/ledger/verify')
  expect(houseUsd.payouts).toBe('0.400000000')
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

function sshOf(command: string) {
  const [, user, host, port] = /^ssh (\S+)@(\S+) -p (\d+)$/.exec(command) ?? []
  return { user, host, port: Number(port) }
}

const detailOf = (id: string | number) => succeed(ada.call, 'GET', `/v2/rentals/${id}`)

test('an instance shows its host, cost and events, by name and by number', async () => {
  const image = { name: 'pytorch/pytorch', tag: '2.4', port: 8888 }
  const guards = { auto_terminate_at: '2026-03-01T00:00:00Z', spending_limit_usd: '40' }
  const orderedAt = journey.now()
  const name = await rent('mock-iad-h100-01', { gpu_count: 3, image, label: 'notebook', ...guards })
  const ordered = await detailOf(name)
  expect(ordered).toMatchObject({ state: 'Pending', startedAt: null, ssh: null })
  expect(ordered).toMatchObject({ costSoFarUsd: '0.000000000', pricePerHourUsd: '6.570000000', portMappings: [] })
  await start()
  const startedAt = journey.now()
  await journey.advance(20 * 60_000)

  const running = await detailOf(name)
  const { instances: mine } = await succeed(ada.call, 'GET', instances)
  const listed = mine.find((instance: { id: string }) => instance.id === name)
  const { events, id, orderedBy, statusSince, ...reported } = running
  expect(reported).toEqual({
    name,
    label: 'notebook',
    kind: 'container',
    state: 'Running',
    actions: ['stop', 'reboot', 'terminate'],
    ready: true,
    startRequestedAt: null,
    // The default disk of 50 GB at $0.10 per month.
    stoppedCostPerHourUsd: '0.006849315',
    cpuOnly: false,
    // Two CPUs at $0.02, and the disk.
    cpuOnlyCostPerHourUsd: '0.046849315',
    exitCode: null,
    gpusDueAt: null,
    group: null,
    interruptible: null,
    createdAt: orderedAt,
    startedAt,
    terminatedAt: null,
    clusterName: 'mock-iad',
    providerId: 'mock',
    supplierId: listed.instance.supplier_id,
    region: 'us-east',
    machines: [{ id: 'mock-iad-h100-01', gpuCount: 3 }],
    movesTo: null,
    gpuModel: 'NVIDIA-H100-SXM5-80GB',
    gpuType: 'h100',
    gpuFormFactor: 'sxm5',
    networkType: 'ethernet',
    termPeriodDays: null,
    termEndsAt: null,
    discountPercentage: null,
    originalPricePerHourUsd: null,
    convertToOnDemandOnExpiry: null,
    commitment: null,
    gpuCount: 3,
    resources: { cpuModel: 'Intel Xeon Platinum 8480C', cpuCount: 84, ramGb: 768, storageGb: 50 },
    image: { name: 'pytorch/pytorch', tag: '2.4' },
    // Three GPUs at $2.19/hr for 20 minutes.
    pricePerHourUsd: '6.570000000',
    currentCostPerHourUsd: '6.570000000',
    costSoFarUsd: '2.190000000',
    ssh: sshOf(listed.sshCommand),
    metadata: {},
    simulated: 'machine',
    portMappings: [{ port: 8888, host: listed.portMappings[0].domain, publicPort: 8888 }],
    ports: [
      {
        port: 8888,
        protocol: 'tcp',
        access: 'public',
        healthPath: null,
        healthy: null,
        url: `tcp://${listed.portMappings[0].domain}:8888`,
      },
    ],
    statusReason: null,
    statusMessage: null,
    stuckSince: null,
    terminateRequestedAt: null,
    autoTerminateAt: '2026-03-01T00:00:00.000Z',
    spendingLimitUsd: '40.000000000',
    stopAt: null,
    idle: null,
    workload: {
      ...emptyWorkload,
      ports: [{ port: 8888, protocol: 'tcp', access: 'public', healthPath: null }],
    },
  })
  expect(events.map((event: { type: string }) => event.type)).toEqual(['rental.running', 'rental.created'])
  expect(statusSince).toBe(startedAt)
  expect(orderedBy.id).toMatch(/^usr_/)
  expect(await detailOf(id)).toEqual(running)

  await end(name)
  await journey.pass()
  const endedAt = journey.now()
  await journey.advance(HOUR_MS)
  const ended = await detailOf(name)
  expect(ended).toMatchObject({
    id,
    state: 'Terminated',
    statusReason: 'customer_request',
    terminateRequestedAt: endedAt,
    terminatedAt: endedAt,
    costSoFarUsd: '2.190000000',
    machines: running.machines,
    ssh: null,
    portMappings: [],
  })
  expect(ended.events[0]).toMatchObject({ type: 'rental.terminated', data: { name } })
  expect(await chargedFor(ada.call, { rentalId: id })).toBe(usd(ended.costSoFarUsd))
})

test("hides other accounts' instances, and does not show an instance as a virtual machine", async () => {
  const name = await rent('mock-iad-h100-01')
  const { id: rentalId, image } = await detailOf(name)
  expect(image).toBe(null)
  const asked: Array<[Call, string | number]> = [
    [supplier.call, name],
    [supplier.call, rentalId],
    [ada.call, 'never-was-there'],
    [ada.call, '4294967296'],
  ]
  for (const [by, id] of asked) {
    const reply = await by('GET', `/v2/rentals/${id}`)
    expect([id, reply.status, reply.body.reason]).toEqual([id, 404, 'rental_not_found'])
  }
  expect((await ada.call('GET', `/v2/alpha/on-demand/rentals/${rentalId}`)).status).toBe(404)
})

const change = (id: string | number, body: object, by: Call = ada.call) => by('PATCH', `/v2/rentals/${id}`, body)

test('sets and clears the label, end time and spending limit of an instance', async () => {
  const name = await rent('mock-iad-h100-01', { label: 'notebook' })
  await start()
  const { id: rentalId } = await detailOf(name)
  const autoTerminateAt = '2026-06-01T00:00:00.000Z'
  for (const [sent, shown] of [
    [{ label: 'run 2' }, { label: 'run 2', autoTerminateAt: null, spendingLimitUsd: null }],
    [{ autoTerminateAt }, { label: 'run 2', autoTerminateAt, spendingLimitUsd: null }],
    [{ spendingLimitUsd: '40' }, { label: 'run 2', autoTerminateAt, spendingLimitUsd: '40.000000000' }],
    [
      { label: null, autoTerminateAt: null },
      { label: null, autoTerminateAt: null, spendingLimitUsd: '40.000000000' },
    ],
  ] as const) {
    const reply = await change('label' in sent ? name : rentalId, sent)
    expect([reply.status, reply.body]).toMatchObject([200, { name, state: 'Running', ...shown }])
  }
  const past = await change(name, { autoTerminateAt: '2020-01-01T00:00:00Z' })
  expect([past.status, past.body.reason, past.body.issues[0].path]).toEqual([400, 'time_in_past', ['autoTerminateAt']])
  expect((await change(name, { convertToOnDemandOnExpiry: true })).status).toBe(400)
  const events = await eventTypesOf(ada.call, `rental:${rentalId}`)
  expect(events.filter((type) => type === 'rental.changed')).toHaveLength(4)

  // A limit ends the instance at the exact moment it is reached.
  expect((await change(name, { spendingLimitUsd: '1.095' })).status).toBe(200)
  await journey.advance(HOUR_MS)
  const ended = await detailOf(name)
  expect(ended).toMatchObject({ statusReason: 'spending_limit', costSoFarUsd: '1.095000000' })
  const late = await change(name, { label: 'too late' })
  expect([late.status, late.body.reason]).toEqual([400, 'already_terminated'])
})

test("nobody changes another account's instance", async () => {
  const name = await rent('mock-iad-h100-01')
  const { id: rentalId } = await detailOf(name)
  const asked: Array<[Call, string | number]> = [
    [supplier.call, name],
    [supplier.call, rentalId],
    [ada.call, 'never-was-there'],
  ]
  for (const [by, id] of asked) {
    const reply = await change(id, { label: 'mine' }, by)
    expect([id, reply.status, reply.body.reason]).toEqual([id, 404, 'rental_not_found'])
  }
  expect((await detailOf(name)).label).toBe(null)
})

test('rejects an order whose price cap was exceeded by a price change, and its key can be reused', async () => {
  const node = 'mock-fra-rtx4090-01'
  const seen = (await search({ cluster_name: 'mock-fra' })).find((machine) => machine.id === node)
  expect(seen).toMatchObject({ pricing: { price: { amount: 0.39 } } })
  const bought = { supplierId: supplier.id, reason: 'bought' }
  await succeed(journey.operator, 'PATCH', `/v2/operator/machines/${node}`, bought)
  await succeed(supplier.call, 'PATCH', `/v2/supply/machines/${node}`, { pricePerGpuHourUsd: '0.390000001' })
  const order = { cluster_name: 'mock-fra', node_name: node, gpu_count: 2 }
  const create = (max_cost_per_hour_usd: string) =>
    ada.call('POST', `${instances}/create`, { ...order, max_cost_per_hour_usd }, { 'Idempotency-Key': 'price-1' })
  const before = await fingerprint(journey.app)
  const refused = await create('0.78')
  expect([refused.status, refused.body.reason, refused.body.param]).toEqual([
    400,
    'price_changed',
    'max_cost_per_hour_usd',
  ])
  expect(refused.body.message).toContain('$0.78')
  expect(await fingerprint(journey.app)).toEqual(before)
  const taken = await create('0.780000002')
  expect(taken.status).toBe(200)
  expect(await detailOf(taken.body.instance_id)).toMatchObject({ pricePerHourUsd: '0.780000002' })
  await end(taken.body.instance_id)
})

// oxfmt-ignore
const failures = [
  { label: 'fault-boot-fails',     reason: 'boot_failed',       statusMessage: null },
  { label: 'fault-create-refused', reason: 'rejected_by_provider', statusMessage: 'The engine refused the request.' },
]

test('an instance that failed to start gives the reason and is free', async () => {
  for (const { label, reason, statusMessage } of failures) {
    const name = await rent('mock-iad-h100-01', { label })
    await start()
    const failed = await detailOf(name)
    expect(failed).toMatchObject({ label, state: 'Failed', statusReason: reason })
    expect(failed).toMatchObject({ statusMessage, startedAt: null, costSoFarUsd: '0.000000000', ssh: null })
    const reported = failed.events.find((event: { type: string }) => event.type === 'rental.failed')
    expect(reported.data).toMatchObject({ name, reason })
  }
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})
