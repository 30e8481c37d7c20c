/** The simulated provider passes the driver suite, and its faults occur as their table says. */
import { describe, expect, it } from 'vitest'
import { HOUR_MS } from '../../base/instant.ts'
import { providerData } from '../../contract/provider-data.ts'
import { volumeLabel } from '../../contract/shared.ts'
import { rentalStateTable } from '../../contract/rental-state.ts'
import type { RentalSpec } from '../../domain/rental.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import { faultsByLabel, resourceFaults, sampleSpec } from '../conformance-bench.ts'
import { driverConformance } from '../conformance.ts'
import { unitId } from '../../domain/unit.ts'
import { mockDriver, type MockOptions } from './driver.ts'
import { mockOffers } from './fleet.ts'
import type { MockOffer } from './offers.ts'
import {
  ATTACH_REFUSALS,
  DESTROY_REFUSALS,
  faultsOf,
  FLAP_AFTER_MS,
  FLAP_HIDDEN_MS,
  LATE_LIST_MS,
  mockFaults,
  SLOW_BOOT_MS,
  SLOW_DESTROY_MS,
  VANISH_AFTER_MS,
  type MockFault,
} from './faults.ts'
import { memoryWorld } from './world.ts'

const signal = new AbortController().signal
const labelOf = (fault: string): string => `fault-${fault.replace('volume-', '')}`

driverConformance('mock in memory', async () => {
  const clock = manualClock()
  const world = memoryWorld()
  const goAway = (): void => {
    const fail = async (): Promise<never> => Promise.reject(new Error('The simulated engine is away.'))
    for (const operation of Object.keys(world)) Object.assign(world, { [operation]: fail })
  }
  return {
    driver: mockDriver({ world, clock, bootMs: 20_000, destroyMs: 5_000, listLagMs: 2_000 }),
    advance: async (ms) => clock.advance(ms),
    spec: sampleSpec,
    faults: { ...faultsByLabel(labelOf), unreachable: { arm: goAway } },
    dispose: async () => {},
  }
})

describe.each([true, false])('with a count: %s', (reportsCount) => {
  driverConformance(
    'mock with elastic offers',
    async () => {
      const clock = manualClock()
      const offerId = 'mock-cloud-h100x2'
      const [first] = mockOffers().filter(({ id }) => id === offerId)
      if (first === undefined) throw new Error('the simulated catalogue has changed')
      let offer: MockOffer = { ...first, reportsCount, capacity: 4 }
      let offers: MockOffer[] = [offer]
      const change = (values: Partial<MockOffer>): void => {
        offer = { ...offer, ...values }
        offers = [offer]
      }
      const nodes = (units: number) =>
        Array.from({ length: units }, (_, n) => ({ machineId: unitId(offerId, n + 1), gpuIndexes: [0, 1] }))
      const order = (units: number, overrides: Partial<RentalSpec> = {}): RentalSpec =>
        sampleSpec({ nodes: nodes(units), gpuCount: 2 * units, maxCostUsdPerGpuHour: '2.49', ...overrides })
      return {
        driver: mockDriver({ world: memoryWorld(), clock, bootMs: 20_000, fleet: [], offers: () => offers }),
        advance: async (ms) => clock.advance(ms),
        spec: (overrides) => order(1, overrides),
        faults: faultsByLabel(labelOf),
        elastic: {
          offerId,
          order,
          setCapacity: (capacity) => change({ capacity }),
          raiseCost: () => change({ costUsdPerGpuHour: '2.50' }),
          withdraw: () => void (offers = []),
        },
        dispose: async () => {},
      }
    },
    { elastic: true, cannot: { unreachable: 'its world is in memory; the run without offers tests it' } },
  )
})

/** Starts and stops take no time, so that only the faults matter. */
function mock(options: Partial<MockOptions> = {}) {
  const clock = manualClock()
  const world = memoryWorld()
  const driver = mockDriver({ world, clock, bootMs: 0, destroyMs: 0, listLagMs: 0, ...options })
  const order = (label: MockFault, tag = 'berth-t-1') => driver.create(tag, sampleSpec({ label }), signal)
  const create = async (overrides: Partial<RentalSpec> = {}, tag = 'berth-t-1'): Promise<string> => {
    const outcome = await driver.create(tag, sampleSpec(overrides), signal)
    if (outcome.kind !== 'created') throw new Error(outcome.message)
    return outcome.externalId
  }
  const createVolume = async (label: string) => {
    const order = { region: 'us-central-1', label, sizeGb: 256 }
    const outcome = await driver.volumes.create('berth-t-v1', order, signal)
    if (outcome.kind !== 'created') throw new Error(outcome.reason)
    return outcome
  }
  /** The listed states after that much more time. */
  const statesAfter = async (ms: number): Promise<string[]> => {
    clock.advance(ms)
    return (await driver.list('berth-t-', signal)).map((machine) => machine.state)
  }
  const destroy = (externalId: string) => driver.destroy(externalId, signal)
  return { clock, world, driver, volumes: driver.volumes, order, create, createVolume, statesAfter, destroy }
}

describe('the simulated engine', () => {
  it('behaves the same for the same seed and tag, and differently for others', async () => {
    const lifeOf = async (seed: string, tag: string) => {
      const { create, world } = mock({ seed, bootMs: HOUR_MS, destroyMs: HOUR_MS, listLagMs: HOUR_MS })
      const machine = await world.findMachine(await create({}, tag))
      return [machine?.externalId, machine?.runningAt, machine?.listedAt, machine?.destroyMs]
    }
    expect(await lifeOf('a', 'berth-t-1')).toEqual(await lifeOf('a', 'berth-t-1'))
    expect(await lifeOf('a', 'berth-t-1')).not.toEqual(await lifeOf('a', 'berth-t-2'))
    expect(await lifeOf('a', 'berth-t-1')).not.toEqual(await lifeOf('b', 'berth-t-1'))
  })

  it('boots in 50 to 150 percent of the given time, evenly spread', async () => {
    const { create, world, clock } = mock({ bootMs: 10_000 })
    const bootMs: number[] = []
    for (let n = 1; n <= 200; n += 1) {
      const machine = await world.findMachine(await create({}, `berth-t-${n}`))
      bootMs.push((machine?.runningAt ?? 0) - clock.now())
    }
    expect(Math.min(...bootMs)).toBeGreaterThanOrEqual(5_000)
    expect(Math.min(...bootMs)).toBeLessThan(6_000)
    expect(Math.max(...bootMs)).toBeGreaterThan(14_000)
    expect(Math.max(...bootMs)).toBeLessThanOrEqual(15_000)
  })

  it('starts and stops at once with zero times', async () => {
    const { create, destroy, statesAfter } = mock()
    const externalId = await create()
    expect(await statesAfter(0)).toEqual(['running'])
    await destroy(externalId)
    expect(await statesAfter(0)).toEqual([])
  })

  it('describes nodes, form factor and ports with addresses reserved for tests', async () => {
    const { create, driver } = mock()
    const nodes = ['mock-usc1-h100-01', 'mock-usc1-h100-02'].map((machineId) => ({ machineId, gpuIndexes: [0, 1] }))
    await create({ kind: 'bare-metal', nodes, gpuCount: 16, ports: Array.from({ length: 25 }, (_, i) => 8_000 + i) })
    const [machine] = await driver.list('berth-t-', signal)
    const ssh = { host: expect.stringMatching(/^198\.1[89]\.\d+\.\d+$/), port: 22, user: 'ubuntu' }
    const data = providerData.parse(machine?.data)
    expect(data).toMatchObject({
      externalId: machine?.externalId,
      resources: { vcpuCount: 112, gpuCount: 16 },
      networkType: 'ethernet',
      gpuFormFactor: 'sxm5',
      sshNetworking: [ssh, ssh],
      customPorts: Array.from({ length: 20 }, (_, i) => 8_000 + i),
    })
    expect(new Set(data.nodeNetworking?.flatMap((node) => [node.publicIp, node.privateIp])).size).toBe(4)
  })

  it('forgets only machines that have long been gone', async () => {
    const { create, destroy, clock, world } = mock()
    const [spared, gone] = [await create({}, 'berth-t-1'), await create({}, 'berth-t-2')]
    await destroy(gone)
    await create({}, 'berth-t-3')
    expect(await world.findMachine(gone)).toBeDefined()
    clock.advance(2 * HOUR_MS)
    await create({}, 'berth-t-4')
    expect(await world.findMachine(gone)).toBeUndefined()
    expect(await world.findMachine(spared)).toBeDefined()
    await destroy(gone)
  })

  it('keeps an attached volume until its machine is gone', async () => {
    const { create, destroy, createVolume, volumes } = mock()
    const machineId = await create()
    const { externalId, vip } = await createVolume('data')
    expect(vip).toMatch(/^198\.51\.100\.\d+$/)
    await volumes.attach(externalId, machineId, signal)
    await expect(volumes.destroy(externalId, signal)).rejects.toThrow('attached')
    await destroy(machineId)
    expect(await volumes.list('berth-t-', signal)).toMatchObject([{ externalId, attachedTo: [] }])
    await volumes.destroy(externalId, signal)
    expect(await volumes.list('berth-t-', signal)).toEqual([])
    await expect(volumes.attach(externalId, machineId, signal)).rejects.toThrow('no such')
  })
})

describe('fault labels', () => {
  it('are valid volume labels, and none contains another', () => {
    const words = Object.keys(mockFaults)
    for (const word of words) {
      expect(volumeLabel.safeParse(word).success).toBe(true)
      expect([...faultsOf(`a-${word}-b`)]).toEqual([word])
    }
    expect(words).toEqual(expect.arrayContaining(resourceFaults.map(labelOf)))
    expect([...faultsOf('fault-vanish_and_fault-list-lag')].sort()).toEqual(['fault-list-lag', 'fault-vanish'])
    expect(faultsOf(null).size + faultsOf('a fault').size).toBe(0)
  })
})

describe('the faults of simulated machines', () => {
  it('create-refused: nothing is created', async () => {
    const { order, statesAfter } = mock()
    expect(await order('fault-create-refused')).toMatchObject({ kind: 'refused', reason: 'rejected_by_provider' })
    expect(await statesAfter(HOUR_MS)).toEqual([])
  })

  it('duplicate: two with the same tag, and each can be destroyed', async () => {
    const { create, driver, destroy, statesAfter } = mock()
    const first = await create({ label: 'fault-duplicate' })
    const listed = await driver.list('berth-t-1', signal)
    expect(listed.map(({ tag }) => tag)).toEqual(['berth-t-1', 'berth-t-1'])
    expect(new Set(listed.map(({ externalId }) => externalId)).size).toBe(2)
    await destroy(first)
    expect(await statesAfter(0)).toEqual(['running'])
  })

  it('create-timeout and duplicate add up', async () => {
    const { create, statesAfter } = mock()
    await expect(create({ label: 'fault-create-timeout fault-duplicate' })).rejects.toThrow('timed out')
    expect(await statesAfter(0)).toEqual(['running', 'running'])
  })

  it('boot-never exceeds the start limit, slow-boot does not', async () => {
    const never = mock()
    await never.create({ label: 'fault-boot-never' })
    expect(await never.statesAfter(100 * HOUR_MS)).toEqual(['starting'])
    const slow = mock()
    await slow.create({ label: 'fault-slow-boot' })
    expect(await slow.statesAfter(SLOW_BOOT_MS - 1)).toEqual(['starting'])
    expect(await slow.statesAfter(1)).toEqual(['running'])
    expect(SLOW_BOOT_MS).toBeLessThan(rentalStateTable.Pending.limit?.ms ?? 0)
  })

  it('boot-fails: failed when it should run', async () => {
    const { create, driver } = mock()
    await create({ label: 'fault-boot-fails' })
    expect(await driver.list('', signal)).toMatchObject([{ state: 'failed', failure: 'boot_failed' }])
  })

  it('list-late: listed after the list lag', async () => {
    const { create, statesAfter } = mock({ listLagMs: 1_000 })
    await create({ label: 'fault-list-late' })
    expect(await statesAfter(1_000 + LATE_LIST_MS - 1)).toEqual([])
    expect(await statesAfter(1)).toEqual(['running'])
  })

  it('vanish: listed for one minute', async () => {
    const { create, statesAfter } = mock()
    await create({ label: 'fault-vanish' })
    expect(await statesAfter(VANISH_AFTER_MS - 1)).toEqual(['running'])
    expect(await statesAfter(1)).toEqual([])
  })

  it('flap: unlisted for a while, and back before Unknown expires', async () => {
    const { create, statesAfter } = mock()
    await create({ label: 'fault-flap' })
    expect(await statesAfter(FLAP_AFTER_MS - 1)).toEqual(['running'])
    expect(await statesAfter(1)).toEqual([])
    expect(await statesAfter(FLAP_HIDDEN_MS - 1)).toEqual([])
    expect(await statesAfter(1)).toEqual(['running'])
    expect(FLAP_HIDDEN_MS).toBeLessThan(rentalStateTable.Unknown.limit?.ms ?? 0)
  })

  it('destroy-refused: a fixed number of times', async () => {
    const { create, destroy, statesAfter } = mock()
    const externalId = await create({ label: 'fault-destroy-refused' })
    for (let n = 1; n <= DESTROY_REFUSALS; n += 1) {
      await expect(destroy(externalId)).rejects.toThrow('refused')
      expect(await statesAfter(0)).toEqual(['running'])
    }
    await destroy(externalId)
    expect(await statesAfter(0)).toEqual([])
  })

  it('destroy-timeout: throws, and the machine is still destroyed', async () => {
    const { create, destroy, statesAfter } = mock({ destroyMs: 1_000 })
    const externalId = await create({ label: 'fault-destroy-timeout' })
    await expect(destroy(externalId)).rejects.toThrow('timed out')
    expect(await statesAfter(0)).toEqual(['stopping'])
    expect(await statesAfter(1_500)).toEqual([])
    await destroy(externalId)
  })

  it('destroy-slow: exceeds the limit for stuck, and a repeated call does not delay it', async () => {
    const { create, destroy, statesAfter } = mock()
    const externalId = await create({ label: 'fault-destroy-slow' })
    await destroy(externalId)
    expect(await statesAfter(SLOW_DESTROY_MS - 1)).toEqual(['stopping'])
    await destroy(externalId)
    expect(await statesAfter(1)).toEqual([])
    expect(SLOW_DESTROY_MS).toBeGreaterThan(rentalStateTable.Terminating.limit?.ms ?? Infinity)
  })
})

describe('the faults of simulated volumes', () => {
  it('refused and lost volumes leave nothing', async () => {
    const { createVolume, volumes } = mock()
    await expect(createVolume('fault-create-refused')).rejects.toThrow('rejected_by_provider')
    await expect(createVolume('fault-no-capacity')).rejects.toThrow('no_storage_capacity')
    await expect(createVolume('fault-create-lost')).rejects.toThrow('The simulated engine')
    expect(await volumes.list('', signal)).toEqual([])
  })

  it('attach-refused: a fixed number of times', async () => {
    const { create, createVolume, volumes } = mock()
    const machineId = await create()
    const { externalId } = await createVolume('fault-attach-refused')
    for (let n = 1; n <= ATTACH_REFUSALS; n += 1) {
      await expect(volumes.attach(externalId, machineId, signal)).rejects.toThrow('refused')
    }
    await volumes.attach(externalId, machineId, signal)
    expect(await volumes.list('', signal)).toMatchObject([{ attachedTo: [machineId] }])
  })
})
