/**
 * Every fault of the simulated engine, through the public API: each ends in the right state, costs only what was used,
 * and leaves no money, GPU or machine behind.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS } from '../../src/base/instant.ts'
import { mockFaults, VANISH_AFTER_MS, type MockFault } from '../../src/drivers/mock/faults.ts'
import { tagPrefix } from '../../src/domain/rental.ts'
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

const path = '/v2/alpha/on-demand/virtual-machine-rentals'
const volumes = '/v2/alpha/on-demand/storage-volumes'
const faults = Object.keys(mockFaults) as MockFault[]
/** Every loop runs a hundred times, which takes minutes on a busy machine. */
const SLOW_MS = 600_000

/** The state a rental with each fault reaches on its own, and whether it was ever charged. */
// oxfmt-ignore
const outcomes: { readonly [Fault in MockFault]: { status: string; reason: string | null; paid: boolean; event: string } } = {
  'fault-create-refused':  { status: 'Failed',  reason: 'rejected_by_provider', paid: false, event: 'rental.failed' },
  'fault-no-capacity':     { status: 'Failed',  reason: 'no_capacity',       paid: false, event: 'rental.failed' },
  'fault-create-lost':     { status: 'Failed',  reason: 'start_timed_out',   paid: false, event: 'rental.failed' },
  'fault-create-timeout':  { status: 'Running', reason: null,                paid: true,  event: 'rental.running' },
  'fault-duplicate':       { status: 'Running', reason: null,                paid: true,  event: 'rental.running' },
  'fault-boot-fails':      { status: 'Failed',  reason: 'boot_failed',       paid: false, event: 'rental.failed' },
  'fault-boot-never':      { status: 'Failed',  reason: 'start_timed_out',   paid: false, event: 'rental.failed' },
  'fault-slow-boot':       { status: 'Running', reason: null,                paid: true,  event: 'rental.running' },
  'fault-list-lag':        { status: 'Running', reason: null,                paid: true,  event: 'rental.running' },
  'fault-list-late':       { status: 'Running', reason: null,                paid: true,  event: 'rental.running' },
  'fault-vanish':          { status: 'Failed',  reason: 'machine_lost',      paid: true,  event: 'rental.unknown' },
  'fault-flap':            { status: 'Running', reason: null,                paid: true,  event: 'rental.recovered' },
  'fault-destroy-refused': { status: 'Running', reason: null,                paid: true,  event: 'rental.running' },
  'fault-destroy-timeout': { status: 'Running', reason: null,                paid: true,  event: 'rental.running' },
  'fault-destroy-slow':    { status: 'Running', reason: null,                paid: true,  event: 'rental.running' },
  'fault-stop-timeout':    { status: 'Running', reason: null,                paid: true,  event: 'rental.running' },
  'fault-start-refused':   { status: 'Running', reason: null,                paid: true,  event: 'rental.running' },
  'fault-start-fails':     { status: 'Running', reason: null,                paid: true,  event: 'rental.running' },
  'fault-attach-refused':  { status: 'Running', reason: null,                paid: true,  event: 'rental.running' },
}

let journey: Journey
let ada: { id: string; key: string; call: Call }
const rentals = new Map<MockFault, number>()
const detail = (id: number) => succeed(ada.call, 'GET', `/v2/alpha/on-demand/rentals/${id}`)
const rentalOf = (fault: MockFault) => detail(rentals.get(fault) ?? 0)

beforeAll(async () => {
  journey = await startJourney()
  ada = await journey.account({ usd: '1000' })
})
afterAll(() => journey.close())

describe('rentals, one with each fault, left alone for two hours', () => {
  beforeAll(async () => {
    for (const [i, label] of faults.entries()) {
      // One region has too few GPUs for all of them.
      const order = { gpuCount: 1, region: i % 2 === 0 ? 'mock-region' : 'us-central-1', label }
      rentals.set(label, (await succeed(ada.call, 'POST', path, order)).id)
    }
    await journey.pass()
    await journey.advance(LIST_LAG_MS)
    await journey.advanceBy(30_000, 20)
    await journey.advanceBy(10 * MINUTE_MS, 11)
  }, SLOW_MS)

  test.each(faults)('%s', async (fault) => {
    const { status, reason, paid, event } = outcomes[fault]
    const rental = await rentalOf(fault)
    expect([rental.status, rental.statusReason]).toEqual([status, reason])
    expect((await chargedFor(ada.call, { rentalId: rental.id })) > 0n).toBe(paid)
    expect(await eventTypesOf(ada.call, `rental:${rental.id}`)).toContain(event)
  })

  test('failed rentals have released their money and GPUs, and every machine at the engine is in the database', async () => {
    const running = faults.filter((fault) => outcomes[fault].status === 'Running')
    const { machines } = await succeed(journey.operator, 'GET', '/v2/operator/machines?limit=1000')
    const inUse = (machines as Array<{ gpusInUse: number }>).reduce((sum, machine) => sum + machine.gpusInUse, 0)
    expect(inUse).toBe(running.length)
    expect(await atTheEngine()).toBe(running.length)
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })
})

/** Our machines at the engine. */
async function atTheEngine(): Promise<number> {
  const driver = journey.app.drivers.get('mock')
  const shown = await driver?.list(tagPrefix(journey.app.installationId), new AbortController().signal)
  return shown?.length ?? 0
}

describe('all of them ended', () => {
  beforeAll(async () => {
    for (const rentalId of rentals.values()) await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId })
    await journey.pass()
  })

  test('a machine the engine does not remove stays Terminating and is flagged as stuck after a while', async () => {
    expect(await rentalOf('fault-destroy-slow')).toMatchObject({ status: 'Terminating', stuckSince: null })
    const refused = await rentalOf('fault-destroy-refused')
    expect(refused.status).toBe('Terminating')
    await journey.advanceBy(MINUTE_MS, 16)
    const stuck = await rentalOf('fault-destroy-slow')
    expect(stuck).toMatchObject({ status: 'Terminating', stuckSince: expect.any(String) })
    expect(await eventTypesOf(ada.call, `rental:${stuck.id}`)).toContain('rental.stuck')
    expect(await rentalOf('fault-destroy-refused')).toMatchObject({ status: 'Terminated' })
    await journey.advanceBy(MINUTE_MS, 5)
    expect(await rentalOf('fault-destroy-slow')).toMatchObject({ status: 'Terminated', stuckSince: null })
  })

  test.each(faults)('%s is Terminated, and the teardown time is free', async (fault) => {
    const rental = await rentalOf(fault)
    expect(rental.status).toBe('Terminated')
    expect(rental.events[0].type).toBe('rental.terminated')
  })

  test('nothing is left: no machine, no claim, no hold', async () => {
    expect(await atTheEngine()).toBe(0)
    const { machines } = await succeed(journey.operator, 'GET', '/v2/operator/machines?limit=1000')
    expect((machines as Array<{ gpusInUse: number }>).filter((machine) => machine.gpusInUse > 0)).toEqual([])
    expect(await succeed(ada.call, 'GET', '/v2/customer/balance')).toMatchObject({
      heldUsd: '0.000000000',
      hourlySpendUsd: '0.000000000',
    })
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })
})

/** The state a volume with each fault reaches; faults not listed here have no effect. */
const volumeOutcomes: { readonly [Fault in MockFault]?: { status: 'inactive' | 'unknown'; reason: string } } = {
  'fault-create-refused': { status: 'inactive', reason: 'rejected_by_provider' },
  'fault-no-capacity': { status: 'inactive', reason: 'no_storage_capacity' },
  'fault-create-lost': { status: 'inactive', reason: 'engine_failure' },
  'fault-vanish': { status: 'unknown', reason: 'data_not_found' },
}

describe('volumes, one with each fault', () => {
  const made = new Map<MockFault, number>()
  let metal: number
  const find = async (fault: MockFault) => {
    const all: Array<{ id: number }> = await succeed(ada.call, 'GET', volumes)
    return all.find((volume) => volume.id === made.get(fault))
  }

  beforeAll(async () => {
    const order = { gpuCount: 8, networkType: 'ethernet' }
    metal = (await succeed(ada.call, 'POST', '/v2/alpha/on-demand/bare-metal-rentals', order)).id
    for (const label of faults) {
      const order = {
        region: 'us-central-1',
        label,
        sizeInGb: 256,
        rentalIds: label === 'fault-attach-refused' ? [metal] : [],
      }
      made.set(label, (await succeed(ada.call, 'POST', volumes, order)).storageVolumeId)
    }
    await journey.pass()
    await journey.advance(LIST_LAG_MS)
    await journey.advanceBy(MINUTE_MS, 12)
  })

  test.each(faults)('%s', async (fault) => {
    const outcome = volumeOutcomes[fault]
    const failed = outcome?.status === 'inactive'
    expect(await find(fault)).toMatchObject({
      status: outcome?.status ?? 'active',
      meta: outcome === undefined ? {} : { termination_reason: outcome.reason },
    })
    const types = await eventTypesOf(ada.call, `volume:${made.get(fault)}`)
    expect(types[1]).toBe(failed ? 'volume.failed' : 'volume.active')
    expect(types.includes('volume.attached')).toBe(fault === 'fault-attach-refused')
    expect((await chargedFor(ada.call, { volumeId: made.get(fault) ?? 0 })) > 0n).toBe(!failed)
  })

  test('a volume whose data vanished is free from its last observation on', async () => {
    const volumeId = made.get('fault-vanish') ?? 0
    const charged = await chargedFor(ada.call, { volumeId })
    const row = await journey.app.database.db
      .selectFrom('volume')
      .select(['started_at', 'cost_nano_per_hour', 'last_error'])
      .where('id', '=', volumeId)
      .executeTakeFirstOrThrow()
    expect(row.last_error).not.toBeNull()
    const { events } = await succeed(ada.call, 'GET', `/v2/events?limit=1000&subject=volume:${volumeId}`)
    const event = (events as Array<{ type: string; data: { lastSeenAt: string } }>).find(
      (event) => event.type === 'volume.unknown',
    )
    const seenMs = Date.parse(event?.data.lastSeenAt ?? '') - (row.started_at ?? 0)
    expect(seenMs).toBeLessThanOrEqual(VANISH_AFTER_MS)
    expect(charged).toBe((row.cost_nano_per_hour * BigInt(seenMs)) / BigInt(HOUR_MS))
    await journey.advance(MINUTE_MS)
    expect(await chargedFor(ada.call, { volumeId })).toBe(charged)
  })

  test('all of them are deleted on request, and nothing is left', async () => {
    await succeed(ada.call, 'POST', `${volumes}/detach`, { storageVolumeId: made.get('fault-attach-refused') })
    await journey.pass()
    for (const storageVolumeId of made.values())
      await succeed(ada.call, 'POST', `${volumes}/terminate`, { storageVolumeId })
    await journey.pass()
    await journey.advanceBy(2 * MINUTE_MS, 12)
    expect(await succeed(ada.call, 'GET', volumes)).toEqual([])
    const engine = journey.app.drivers.get('mock')?.volumes
    expect(await engine?.list(tagPrefix(journey.app.installationId), new AbortController().signal)).toEqual([])
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })
})

test('an unreachable engine stops charges; once it is back, the time counts as use and is charged', async () => {
  const drivers = journey.app.drivers as Map<'mock', NonNullable<ReturnType<Journey['app']['drivers']['get']>>>
  const engine = drivers.get('mock')
  if (engine === undefined) throw new Error('no engine')
  const rental = await journey.rentVirtualMachine(ada.call)
  drivers.set('mock', { ...engine, list: () => Promise.reject(new Error('no route to the engine')) })
  journey.clock.advance(HOUR_MS)
  await expect(journey.pass()).rejects.toThrow('no route')
  expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(0n)
  expect(await detail(rental.id)).toMatchObject({ status: 'Running' })
  const audit = await succeed(journey.operator, 'GET', '/v2/operator/engines/audit')
  const error = expect.stringContaining('no route to the engine')
  expect(audit).toMatchObject({ ok: false, engines: [{ reachable: false, error }] })
  drivers.set('mock', engine)
  await journey.advance(0)
  expect(await detail(rental.id)).toMatchObject({ status: 'Running', costSoFarUsd: '2.490000000' })
  await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: rental.id })
  await journey.pass()
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})
