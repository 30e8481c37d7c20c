/** Stop, start and reboot on the simulated engine, to the nano-dollar and the millisecond, on a clock the test controls. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS } from '../../src/base/instant.ts'
import { costOfSpan, formatUsd, shareOf, spanAffordable, usd, type NanoUsd } from '../../src/base/money.ts'
import { stoppedPricePerHour } from '../../src/domain/term.ts'
import {
  chargedFor,
  eventTypesOf,
  LIST_LAG_MS,
  checkLedgerAndEngines,
  startJourney,
  succeed,
  type Journey,
} from '../harness/journey.ts'
import type { Reply } from '../harness/exchange.ts'
import type { Call } from '../harness/server.ts'

/** A machine of a supplier, with few GPUs. */
const NODE = { cluster_name: 'mock-sin', node_name: 'mock-sin-a100-01' }
const PRICE = usd('1.15')
/** Its only GPU. */
const SMALL = { cluster_name: 'mock-sin', node_name: 'mock-sin-rtx3090-01' }
const VM_PRICE = usd('2.49')

let journey: Journey
beforeAll(async () => {
  journey = await startJourney()
})
afterAll(() => journey.close())

const power = (by: Call, id: string | number, act: 'stop' | 'start' | 'reboot', body?: object): Promise<Reply> =>
  by('POST', `/v2/rentals/${id}/${act}`, act === 'start' ? (body ?? {}) : body)
const instance = (by: Call, id: string) => succeed(by, 'GET', `/v2/rentals/${id}`)
const rental = (by: Call, id: number) => succeed(by, 'GET', `/v2/alpha/on-demand/rentals/${id}`)
const millis = (from: string, to: string): number => Date.parse(to) - Date.parse(from)
const diskPriceOf = (made: Reply['body']): NanoUsd =>
  stoppedPricePerHour(usd('0.10'), made.resources.storageGb, { costPerHour: usd(made.pricePerHourUsd) })
const balanceOf = async (by: Call): Promise<NanoUsd> =>
  usd((await succeed(by, 'GET', '/v2/customer/balance')).balanceUsd)

async function rentInstance(by: Call, node = NODE, more: object = {}): Promise<Reply['body']> {
  const body = { ...node, gpu_count: 1, ...more }
  const { instance_id } = await succeed(by, 'POST', '/v1/marketplace/instances/create', body)
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
  return instance(by, instance_id)
}

async function act(by: Call, id: string | number, what: 'stop' | 'start' | 'reboot', body?: object) {
  const reply = await power(by, id, what, body)
  expect([what, reply.status, reply.body]).toEqual([what, 200, reply.body])
  await journey.pass()
  return reply.body
}

async function freeGpus(nodeName: string): Promise<number> {
  const { instances } = await succeed(journey.anonymous, 'POST', '/v1/marketplace', {})
  const found = (instances as Array<{ id: string; gpus_total: number; gpus_reserved: number }>).find(
    ({ id }) => id === nodeName,
  )
  return (found?.gpus_total ?? 0) - (found?.gpus_reserved ?? 0)
}

describe('a stopped rental', () => {
  test('pays the full price until it is off, its disk until it runs again, and its supplier gets a share of both', async () => {
    const ada = await journey.account({ usd: '90' })
    const made = await rentInstance(ada.call)
    expect(made).toMatchObject({ state: 'Running', actions: ['stop', 'reboot', 'terminate'] })
    const diskPrice = diskPriceOf(made)
    expect(made.stoppedCostPerHourUsd).toBe(formatUsd(diskPrice))
    const startedAt = made.startedAt as string

    await journey.advance(HOUR_MS)
    const stopping = await power(ada.call, made.name, 'stop')
    expect(stopping.body).toMatchObject({ state: 'Stopping', actions: ['terminate'] })
    await journey.pass()
    const stoppedAt = journey.now()
    const stopped = await instance(ada.call, made.name)
    expect(stopped).toMatchObject({
      state: 'Stopped',
      statusReason: 'stop_requested',
      actions: ['start', 'terminate'],
      ssh: null,
    })
    expect(await freeGpus(NODE.node_name)).toBe(4)
    expect(await balanceOf(ada.call)).toBe(usd('90') - costOfSpan(PRICE, millis(startedAt, stoppedAt)))

    await journey.advance(20 * HOUR_MS)
    expect(await act(ada.call, made.name, 'start')).toMatchObject({ state: 'Starting' })
    const runningAt = journey.now()
    const again = await instance(ada.call, made.name)
    expect(again).toMatchObject({ state: 'Running', statusReason: null, startedAt, id: made.id })
    expect(await freeGpus(NODE.node_name)).toBe(3)

    await journey.advance(90 * MINUTE_MS)
    await succeed(ada.call, 'POST', '/v1/marketplace/instances/terminate', { id: made.name })
    await journey.pass()
    const expected = [
      costOfSpan(PRICE, millis(startedAt, stoppedAt)),
      costOfSpan(diskPrice, millis(stoppedAt, runningAt)),
      costOfSpan(PRICE, 90 * MINUTE_MS),
    ]
    const total = expected.reduce((sum, one) => sum + one, 0n)
    expect(await chargedFor(ada.call, { rentalId: made.id })).toBe(total)
    expect(await balanceOf(ada.call)).toBe(usd('90') - total)
    expect(await eventTypesOf(ada.call, `rental:${made.id}`)).toEqual([
      'rental.created',
      'rental.running',
      'rental.stopping',
      'rental.stopped',
      'rental.starting',
      'rental.started',
      'rental.terminating',
      'rental.terminated',
    ])
    const segments = await journey.app.database.db
      .selectFrom('segment')
      .selectAll()
      .where('rental_id', '=', made.id)
      .orderBy('started_at')
      .execute()
    expect(segments.map((one) => [one.while_stopped, one.settled_nano])).toEqual([
      [false, expected[0]],
      [true, expected[1]],
      [false, expected[2]],
    ])
    expect(segments.slice(1).map((one) => one.started_at)).toEqual(segments.slice(0, -1).map((one) => one.ended_at))
    for (const one of segments)
      expect(one.supplier_nano).toBe(shareOf(one.settled_nano, 10_000 - (one.platform_fee_bp ?? 0)))
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })

  test('is ended with a warning when the balance is empty, at the exact millisecond', async () => {
    const ada = await journey.account({ usd: '5' })
    const made = await rentInstance(ada.call)
    await act(ada.call, made.name, 'stop')
    const ran = costOfSpan(PRICE, millis(made.startedAt, journey.now()))
    const diskPrice = diskPriceOf(made)
    const stoppedAt = Date.parse(journey.now())
    const span = spanAffordable(diskPrice, (usd('5') - ran) as NanoUsd)
    await journey.advance(span - 3 * HOUR_MS)
    expect((await instance(ada.call, made.name)).state).toBe('Stopped')
    await journey.advance(4 * HOUR_MS)
    expect(await instance(ada.call, made.name)).toMatchObject({
      state: 'Terminated',
      statusReason: 'balance_empty',
      terminateRequestedAt: new Date(stoppedAt + span).toISOString(),
    })
    const account = await eventTypesOf(ada.call, `balance:${ada.id}`)
    expect(account).toEqual(expect.arrayContaining(['balance.runway_low', 'balance.empty']))
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })

  test('keeps a hold for its disk only, and its GPUs do not count against the quota', async () => {
    const ada = await journey.account({ usd: '6' })
    const quota = { gpus: 1 }
    await succeed(journey.operator, 'PATCH', `/v2/operator/accounts/${ada.id}`, { quota, reason: 'small' })
    const first = await journey.rentVirtualMachine(ada.call)
    await act(ada.call, first.id, 'stop')
    const second = await journey.rentVirtualMachine(ada.call)
    expect(second.state).toBe('Running')
    const refused = await power(ada.call, first.id, 'start')
    expect([refused.status, refused.body.reason]).toEqual([403, 'quota_exceeded'])
    await act(ada.call, second.id, 'stop')
    await act(ada.call, first.id, 'start')
    expect(await rental(ada.call, first.id)).toMatchObject({ state: 'Running', status: 'Running' })
    for (const { id } of [first, second])
      await succeed(ada.call, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals/terminate', { rentalId: id })
    await journey.pass()
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })

  test('cannot be started without the money for an hour, and stays as it is', async () => {
    const ada = await journey.account({ usd: '2.60' })
    const made = await journey.rentVirtualMachine(ada.call)
    await journey.advance(30 * MINUTE_MS)
    await act(ada.call, made.id, 'stop')
    const refused = await power(ada.call, made.id, 'start')
    expect([refused.status, refused.body.reason]).toEqual([403, 'insufficient_balance'])
    expect(await rental(ada.call, made.id)).toMatchObject({ state: 'Stopped', currentTerm: { costPerHour: 2.49 } })
    await succeed(ada.call, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals/terminate', { rentalId: made.id })
    await journey.pass()
    expect((await rental(ada.call, made.id)).state).toBe('Terminated')
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })
})

describe('the disk of a stopped rental', () => {
  const end = async (by: Call, ...made: Reply['body'][]): Promise<void> => {
    for (const { name } of made) await succeed(by, 'POST', '/v1/marketplace/instances/terminate', { id: name })
    await journey.pass()
    await journey.advance(MINUTE_MS)
  }
  const wholeDisk = async (node: string): Promise<number> => {
    const { machines } = await succeed(journey.anonymous, 'GET', `/v2/marketplace/machines?text=${node}`)
    return machines[0].storageGb
  }
  const fits = async (by: Call, diskGb: number): Promise<string | undefined> => {
    const reply = await by('POST', '/v1/marketplace/instances/create', { ...NODE, gpu_count: 1, diskGb })
    if (reply.status !== 200) return reply.body.reason
    await end(by, { name: reply.body.instance_id })
    return undefined
  }

  test('is small unless the order names a size, and its price is on the offer (issue 31, 17)', async () => {
    const ada = await journey.account({ usd: '200' })
    const [machine] = (await succeed(journey.anonymous, 'GET', `/v2/marketplace/machines?text=${NODE.node_name}`))
      .machines
    expect(machine.stoppedDiskUsdPerGbMonth).toBe('0.100000000')
    const made = await rentInstance(ada.call, NODE, { gpu_count: 2 })
    // 50 GB at $0.10 in 730 hours.
    expect(made).toMatchObject({ resources: { storageGb: 50 }, stoppedCostPerHourUsd: '0.006849315' })
    expect(made.workload.diskGb).toBeNull()
    const large = await rentInstance(ada.call, NODE, { diskGb: 400 })
    expect(large).toMatchObject({ resources: { storageGb: 400 }, stoppedCostPerHourUsd: '0.054794520' })
    await end(ada.call, made, large)

    const quote = (more: string) =>
      succeed(
        ada.call,
        'GET',
        `/v2/rental-quote?rentalType=virtual-machine&region=mock-region&gpuType=h100&networkType=ethernet&gpuCount=1${more}`,
      )
    expect(await quote('')).toMatchObject({ diskGb: 50, stoppedCostPerHourUsd: '0.006849315' })
    expect(await quote('&diskGb=400')).toMatchObject({ diskGb: 400, stoppedCostPerHourUsd: '0.054794520' })
    const vm = await journey.rentVirtualMachine(ada.call, { gpuCount: 1 })
    expect(await rental(ada.call, vm.id)).toMatchObject({
      nodes: [{ storageGb: 50 }],
      stoppedCostPerHourUsd: '0.006849315',
    })
    await succeed(ada.call, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals/terminate', { rentalId: vm.id })
    await journey.pass()
  })

  test('is not sold again: free GPUs come with a share of what is left, and it starts beside them', async () => {
    const ada = await journey.account({ usd: '200' })
    const quarter = Math.floor((await wholeDisk(NODE.node_name)) / 4)
    const half = await rentInstance(ada.call, NODE, { gpu_count: 2, diskGb: 2 * quarter })
    await act(ada.call, half.name, 'stop')
    // Four free GPUs and half of the disk.
    const next = await rentInstance(ada.call, NODE, { diskGb: Math.floor(quarter / 2) })
    expect(await fits(ada.call, quarter)).toBe('disk_too_large')
    await act(ada.call, half.name, 'start')
    expect((await instance(ada.call, half.name)).state).toBe('Running')
    // One free GPU, and more than its quarter is left.
    expect([await fits(ada.call, quarter), await fits(ada.call, quarter + 1)]).toEqual([undefined, 'disk_too_large'])
    await end(ada.call, half, next)
    expect([await fits(ada.call, quarter), await fits(ada.call, quarter + 1)]).toEqual([undefined, 'disk_too_large'])
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })

  test('takes its machine off sale when nothing is left, until it is deleted', async () => {
    const ada = await journey.account({ usd: '200' })
    const whole = await rentInstance(ada.call, SMALL, { diskGb: await wholeDisk(SMALL.node_name) })
    await act(ada.call, whole.name, 'stop')
    const refused = await ada.call('POST', '/v1/marketplace/instances/create', { ...SMALL, gpu_count: 1 })
    expect([refused.status, refused.body.reason]).toEqual([400, 'no_capacity'])
    const onSale = async (): Promise<boolean> => {
      const filters = { filters: { available_only: true } }
      const { instances } = await succeed(journey.anonymous, 'POST', '/v1/marketplace', filters)
      return instances.some(({ id }: { id: string }) => id === SMALL.node_name)
    }
    expect(await onSale()).toBe(false)
    await act(ada.call, whole.name, 'start')
    expect((await instance(ada.call, whole.name)).state).toBe('Running')
    await end(ada.call, whole)
    expect(await onSale()).toBe(true)
  })

  test('sends orders for virtual machines to other machines, and the report says why', async () => {
    const ada = await journey.account({ usd: '200' })
    const made = await journey.rentVirtualMachine(ada.call, { gpuCount: 8, diskGb: 30_720 })
    await act(ada.call, made.id, 'stop')
    const kind = { machineType: 'virtual-machine', gpuType: 'h100', networkType: 'ethernet' }
    const order = { ...kind, region: 'mock-region', gpuCount: 1 }
    const report = () => succeed(journey.operator, 'POST', '/v2/operator/placement', order)
    const short = (await report()).rejected.filter((one: { reason: string }) => one.reason === 'no_disk')
    expect(short).toHaveLength(1)
    await succeed(ada.call, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals/terminate', { rentalId: made.id })
    await journey.pass()
    await journey.advance(MINUTE_MS)
    const after = await report()
    expect(after.candidates.map((one: { machineId: string }) => one.machineId)).toContain(short[0].machineId)
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })
})

describe('when the GPUs are taken', () => {
  test('a start fails at once and names the way to wait, and a waiting rental starts when they are free', async () => {
    const ada = await journey.account({ usd: '10' })
    const ben = await journey.account({ usd: '10' })
    const made = await rentInstance(ada.call, SMALL, { diskGb: 50 })
    await act(ada.call, made.name, 'stop')
    const other = await rentInstance(ben.call, SMALL)
    expect(other.state).toBe('Running')

    const refused = await power(ada.call, made.name, 'start')
    expect([refused.status, refused.body.reason]).toEqual([400, 'no_gpu_on_host'])
    expect(refused.body.issues).toMatchObject([{ code: 'no_gpu_on_host', path: ['ifNoGpu'] }])
    expect((await instance(ada.call, made.name)).startRequestedAt).toBeNull()

    const waiting = await act(ada.call, made.name, 'start', { ifNoGpu: 'wait' })
    expect(waiting).toMatchObject({ state: 'Stopped', startRequestedAt: journey.now() })
    await journey.advance(HOUR_MS)
    expect((await instance(ada.call, made.name)).state).toBe('Stopped')
    await succeed(ben.call, 'POST', '/v1/marketplace/instances/terminate', { id: other.name })
    await journey.pass()
    await journey.advance(MINUTE_MS)
    expect(await instance(ada.call, made.name)).toMatchObject({ state: 'Running', startRequestedAt: null })
    expect(await eventTypesOf(ada.call, `rental:${made.id}`)).toEqual(
      expect.arrayContaining(['rental.waiting', 'rental.starting', 'rental.started']),
    )
    await succeed(ada.call, 'POST', '/v1/marketplace/instances/terminate', { id: made.name })
    await journey.pass()
  })

  test('a stop ends the wait', async () => {
    const ada = await journey.account({ usd: '10' })
    const made = await rentInstance(ada.call, SMALL, { diskGb: 50 })
    await act(ada.call, made.name, 'stop')
    const other = await rentInstance(ada.call, SMALL, { diskGb: 50 })
    await act(ada.call, made.name, 'start', { ifNoGpu: 'wait' })
    expect(await act(ada.call, made.name, 'stop')).toMatchObject({ state: 'Stopped', startRequestedAt: null })
    for (const { name } of [made, other])
      await succeed(ada.call, 'POST', '/v1/marketplace/instances/terminate', { id: name })
    await journey.advance(MINUTE_MS)
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })
})

describe('an engine that does not do as it is told', () => {
  test('a stop whose answer is lost is a stop', async () => {
    const ada = await journey.account({ usd: '20' })
    const made = await rentInstance(ada.call, NODE, { label: 'fault-stop-timeout' })
    await act(ada.call, made.name, 'stop')
    await journey.advance(MINUTE_MS)
    expect((await instance(ada.call, made.name)).state).toBe('Stopped')
  })

  test.each([
    ['fault-start-refused', 'start_refused'],
    ['fault-start-fails', 'boot_failed'],
  ])('%s: the disk is kept, and the rental is stopped with the reason', async (label, reason) => {
    const ada = await journey.account({ usd: '20' })
    const made = await rentInstance(ada.call, NODE, { label })
    await act(ada.call, made.name, 'stop')
    await act(ada.call, made.name, 'start')
    await journey.advanceBy(MINUTE_MS, 2)
    expect(await instance(ada.call, made.name)).toMatchObject({ state: 'Stopped', statusReason: reason })
    expect(await eventTypesOf(ada.call, `rental:${made.id}`)).toContain('rental.start_failed')
    await succeed(ada.call, 'POST', '/v1/marketplace/instances/terminate', { id: made.name })
    await journey.advance(MINUTE_MS)
    expect((await instance(ada.call, made.name)).state).toBe('Terminated')
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })

  test('a disk that is not listed costs nothing until it is seen again, and is given up by nobody but its customer (issue 31, A)', async () => {
    const ada = await journey.account({ usd: '20' })
    const made = await rentInstance(ada.call, NODE, { label: 'fault-vanish' })
    await act(ada.call, made.name, 'stop')
    await journey.advance(2 * MINUTE_MS)
    const lost = await instance(ada.call, made.name)
    expect(lost.state).toBe('Stopped')
    await journey.advance(20 * HOUR_MS)
    expect(await instance(ada.call, made.name)).toMatchObject({ state: 'Stopped', costSoFarUsd: lost.costSoFarUsd })
    await journey.advance(6 * HOUR_MS)
    expect(await instance(ada.call, made.name)).toMatchObject({
      state: 'Stopped',
      stuckSince: expect.any(String),
      costSoFarUsd: lost.costSoFarUsd,
      actions: ['start', 'terminate'],
    })
    expect(await eventTypesOf(ada.call, `rental:${made.id}`)).not.toContain('rental.failed')
    await succeed(ada.call, 'POST', '/v1/marketplace/instances/terminate', { id: made.name })
    await journey.advance(20 * MINUTE_MS)
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })
})

describe('reboot, reserved rentals and bare metal', () => {
  test('a reboot is passed on once and changes nothing else', async () => {
    const ada = await journey.account({ usd: '10' })
    const made = await journey.rentVirtualMachine(ada.call)
    expect(await act(ada.call, made.name, 'reboot')).toMatchObject({ state: 'Running' })
    await journey.advance(MINUTE_MS)
    expect(await rental(ada.call, made.id)).toMatchObject({ state: 'Running', startedAt: made.startedAt })
    const events = await eventTypesOf(ada.call, `rental:${made.id}`)
    expect(events.filter((type) => type === 'rental.rebooted')).toHaveLength(1)
    await succeed(ada.call, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals/terminate', { rentalId: made.id })
    await journey.pass()
    expect(await chargedFor(ada.call, { rentalId: made.id })).toBe(costOfSpan(VM_PRICE, MINUTE_MS))
    const late = await power(ada.call, made.id, 'reboot')
    expect([late.status, late.body.reason]).toEqual([400, 'not_running'])
  })

  test('a reserved rental keeps its GPUs: it cannot be stopped', async () => {
    const ada = await journey.account({ usd: '5000' })
    const term = { termType: 'reserved', termPeriodDays: 30, discountPercentage: 10 }
    const made = await journey.rentVirtualMachine(ada.call, term)
    expect(made).toMatchObject({ actions: ['reboot', 'terminate'], stoppedCostPerHourUsd: null })
    const refused = await power(ada.call, made.id, 'stop')
    expect([refused.status, refused.body.reason]).toEqual([400, 'reserved_not_stoppable'])
    await succeed(ada.call, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals/terminate', { rentalId: made.id })
    await journey.pass()
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })

  test('stopping twice, starting what runs and starting what stops have clear answers', async () => {
    const ada = await journey.account({ usd: '10' })
    const made = await journey.rentVirtualMachine(ada.call)
    expect(await act(ada.call, made.id, 'start')).toMatchObject({ state: 'Running' })
    await succeed(ada.call, 'POST', `/v2/rentals/${made.id}/stop`)
    const early = await power(ada.call, made.id, 'start')
    expect([early.status, early.body.reason]).toEqual([400, 'not_stopped'])
    await journey.pass()
    expect(await act(ada.call, made.id, 'stop')).toMatchObject({ state: 'Stopped' })
    const missing = await power(ada.call, 'no-such-name', 'stop')
    expect([missing.status, missing.body.reason]).toEqual([404, 'rental_not_found'])
  })
})
