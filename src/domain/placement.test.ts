import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { usd } from '../base/money.ts'
import type { ProviderId } from '../contract/provider-data.ts'
import {
  compareOrigins,
  groupForWhole,
  isPricedBy,
  rankForShare,
  rejectionOf,
  takeWhole,
  whyLater,
  type Candidate,
  type PlacementMachine,
  type Demand,
} from './placement.ts'

function machine(machineId: string, gpusFree: number, clusterName = 'one', gpusTotal = 8): Candidate {
  return { machineId, clusterName, gpusTotal, gpusFree }
}

/** `a7` is machine a with seven of eight GPUs free. */
function machines(text: string): Candidate[] {
  return text.split(' ').map((one) => machine(one.slice(0, 1), Number.parseInt(one.slice(1), 10)))
}

const anyMachines = fc.uniqueArray(
  fc
    .record({
      machineId: fc.string({ minLength: 1, maxLength: 3 }),
      clusterName: fc.constantFrom('one', 'two', 'three'),
      gpusTotal: fc.constantFrom(4, 8),
      free: fc.nat(8),
    })
    .map(({ free, ...rest }): Candidate => ({ ...rest, gpusFree: Math.min(free, rest.gpusTotal) })),
  { selector: (one) => one.machineId, maxLength: 12 },
)

describe('a part of a machine', () => {
  test.each([
    // GPUs, machines, order of attempts
    [1, 'a8 b2 c1 d0', 'c b a'],
    [2, 'a8 b2 c1 d0', 'b a'],
    [8, 'a7 b8 c8', 'b c'],
    [4, 'c4 a4 b4', 'a b c'],
    [9, 'a8 b8', ''],
  ])('%i of %s: tries the fullest machine that fits first', (gpuCount, all, order) => {
    const ranked = rankForShare(machines(all), gpuCount)
    expect(ranked.map((one) => one.machineId).join(' ')).toBe(order)
  })

  test('tries every machine with room, and no other', () => {
    fc.assert(
      fc.property(anyMachines, fc.integer({ min: 1, max: 8 }), (all, gpuCount) => {
        const ranked = rankForShare(all, gpuCount)
        expect(new Set(ranked)).toEqual(new Set(all.filter((one) => one.gpusFree >= gpuCount)))
        ranked.slice(1).forEach((one, i) => expect(one.gpusFree).toBeGreaterThanOrEqual(ranked[i]?.gpusFree ?? 0))
      }),
    )
  })
})

describe('whole machines', () => {
  test('come from one cluster, the one with the fewest spare machines first', () => {
    const all = [machine('a', 8, 'big'), machine('c', 8, 'big'), machine('b', 8, 'big'), machine('d', 8, 'small')]
    const groups = groupForWhole([...all, machine('e', 7, 'small'), machine('f', 8, 'small')], 16)
    expect(groups.map((group) => group.map((one) => one.machineId).join(' '))).toEqual(['d f', 'a b c'])
  })

  test('are never split, and a cluster that is too small is left out', () => {
    fc.assert(
      fc.property(anyMachines, fc.constantFrom(4, 8, 16, 24), (all, gpuCount) => {
        const before = structuredClone(all)
        for (const group of groupForWhole(all, gpuCount)) {
          expect(new Set(group.map((one) => one.clusterName)).size).toBe(1)
          expect(group.reduce((sum, one) => sum + one.gpusTotal, 0)).toBeGreaterThanOrEqual(gpuCount)
          for (const one of group) {
            expect(one.gpusFree).toBe(one.gpusTotal)
            expect(gpuCount % one.gpusTotal).toBe(0)
          }
        }
        expect(all).toEqual(before)
      }),
    )
  })
})

describe('why a machine does not match', () => {
  const drivers = new Set<ProviderId>(['mock', 'host'])
  const free: PlacementMachine = {
    ...machine('a', 8),
    driver: 'host',
    isSimulated: false,
    offerId: null,
    soldWhole: false,
    cost: null,
    preference: 0,
    history: null,
    sellsBelowCost: false,
    asking: null,
    offering: 'virtual-machine',
    region: 'eu-north-2',
    gpuType: 'h100',
    networkType: 'ethernet',
    status: 'node_ready',
    listed: true,
    gpusClaimed: 0,
    storageGb: 8_000,
    diskGbPerGpu: 1_000,
  }
  const part: Demand = {
    machineType: 'virtual-machine',
    region: 'eu-north-2',
    gpuType: 'h100',
    networkType: 'ethernet',
    gpuCount: 4,
    machineGpus: null,
    diskGb: null,
    pays: usd('2'),
  }
  const whole: Demand = { ...part, machineType: 'bare-metal', gpuCount: 16, machineGpus: 8 }

  test.each<[Partial<PlacementMachine>, string | undefined]>([
    [{}, undefined],
    [{ offering: 'marketplace' }, 'other_offering'],
    [{ region: 'eu-north-4', status: 'node_lost' }, 'region_mismatch'],
    [{ gpuType: null }, 'other_gpu'],
    [{ networkType: 'infiniband' }, 'other_network'],
    [{ driver: 'lambda' }, 'engine_off'],
    [{ listed: false, status: 'node_draining' }, 'not_listed'],
    [{ status: 'node_draining' }, 'draining'],
    [{ status: 'node_cleaning' }, 'cleaning'],
    [{ status: 'node_quarantined' }, 'quarantined'],
    [{ status: 'node_lost' }, 'lost'],
    [{ offerId: 'o', soldWhole: true }, 'other_size'],
    [{ offerId: 'o', soldWhole: true, gpusTotal: 4, gpusFree: 4 }, undefined],
    [{ gpusTotal: 2, gpusFree: 2 }, 'other_size'],
    [{ gpusClaimed: 5, gpusFree: 3 }, 'too_few_free'],
    [{ gpusClaimed: 2, gpusFree: 3 }, 'sick_gpus'],
    [{ diskGbPerGpu: 5 }, undefined],
    [{ diskGbPerGpu: 4 }, 'no_disk'],
    [{ diskGbPerGpu: 4, storageGb: 32 }, undefined],
  ])('for a part: %j is %s', (change, reason) => {
    expect(rejectionOf({ ...free, ...change }, part, drivers)?.reason).toBe(reason)
  })

  test.each<[Partial<PlacementMachine>, string | undefined]>([
    [{}, undefined],
    [{ gpusTotal: 4, gpusFree: 4 }, 'other_size'],
    [{ gpusTotal: 5, gpusFree: 5 }, 'other_size'],
    [{ gpusClaimed: 8, gpusFree: 0 }, 'not_whole'],
    [{ gpusFree: 7 }, 'sick_gpus'],
  ])('for whole machines: %j is %s', (change, reason) => {
    expect(rejectionOf({ ...free, offering: 'bare-metal', ...change }, whole, drivers)?.reason).toBe(reason)
  })

  test('rejects an offer that costs more than the order pays', () => {
    expect(rejectionOf({ ...free, offerId: 'o', cost: usd('2') }, part, drivers)).toBeUndefined()
    expect(rejectionOf({ ...free, offerId: 'o', cost: usd('2.01') }, part, drivers)?.reason).toBe('costs_too_much')
    expect(rejectionOf({ ...free, offerId: 'o', asking: usd('3') }, part, drivers)?.reason).toBe('costs_too_much')
  })

  test('ranks exactly the machines that are not rejected', () => {
    fc.assert(
      fc.property(anyMachines, fc.integer({ min: 1, max: 8 }), (all, gpuCount) => {
        const machines = all.map((one) => ({ ...free, ...one, gpusClaimed: one.gpusTotal - one.gpusFree }))
        const fit = machines.filter((one) => rejectionOf(one, { ...part, gpuCount }, drivers) === undefined)
        expect(new Set(rankForShare(machines, gpuCount))).toEqual(new Set(fit))
      }),
    )
  })
})

test('tries real machines before simulated ones, our own before bought ones, preferred offers, then cheap ones', () => {
  const own = { isSimulated: false, offerId: null, cost: null, preference: 0, history: null }
  const bought = { isSimulated: false, preference: 0, history: null }
  const machines: Array<Parameters<typeof compareOrigins>[0]> = [
    { driver: 'mock', isSimulated: true, offerId: null, cost: null, preference: 0, history: null },
    { driver: 'crusoe', ...bought, offerId: 'dear', cost: usd('3') },
    { driver: 'lambda', ...bought, offerId: 'cheap', cost: usd('2') },
    { driver: 'verda', ...bought, offerId: 'preferred', cost: usd('4'), preference: 1 },
    { driver: 'private-cloud', ...own },
    { driver: 'host', ...own },
  ]
  const ranked = machines.toSorted(compareOrigins).map(({ driver }) => driver)
  expect(ranked).toEqual(['host', 'private-cloud', 'verda', 'lambda', 'crusoe', 'mock'])
})

describe('the history of offers', () => {
  const none = { made: 0, noCapacity: 0, failed: 0, started: 0, startMs: null, lowest: null, highest: null }
  const place = (driver: ProviderId, cost: string, noCapacity: number, preference = 0) => ({
    driver,
    isSimulated: false,
    offerId: driver,
    cost: usd(cost),
    preference,
    history: { ...none, noCapacity },
    gpusFree: 1,
  })

  test.each([
    [place('lambda', '2', 3), place('verda', '2', 2), 'verda', 'no_capacity'],
    [place('lambda', '2', 2), place('verda', '2', 0), 'lambda', 'name'],
    [place('lambda', '2', 9), place('verda', '2.01', 0), 'lambda', 'price'],
    [place('lambda', '2', 0), place('verda', '3', 9, 1), 'verda', 'preference'],
  ] as const)('%#: three refusals in an hour put an offer behind an equal one', (a, b, first, why) => {
    const [winner, other] = [a, b].toSorted(compareOrigins)
    expect(winner?.driver).toBe(first)
    expect(winner && other && whyLater(winner, other)).toBe(why)
  })

  test('the order is total: of two places exactly one comes first', () => {
    const any = fc.record({
      driver: fc.constantFrom<ProviderId>('lambda', 'verda', 'crusoe'),
      isSimulated: fc.boolean(),
      offerId: fc.constantFrom(null, 'a', 'b'),
      cost: fc.constantFrom(null, usd('1'), usd('2')),
      preference: fc.integer({ min: -1, max: 1 }),
      history: fc.constantFrom(null, none, { ...none, noCapacity: 3 }),
      gpusFree: fc.integer({ min: 1, max: 2 }),
    })
    fc.assert(
      fc.property(any, any, (a, b) => {
        expect(Math.sign(compareOrigins(a, b)) + Math.sign(compareOrigins(b, a))).toBe(0)
        const why = whyLater(a, b)
        const isEqual = compareOrigins(a, b) === 0
        expect(why === 'same').toBe(isEqual && a.gpusFree === b.gpusFree)
        expect(why === 'fuller_first').toBe(isEqual && a.gpusFree !== b.gpusFree)
      }),
    )
  })
})

test('takes only as many machines of a cluster as the order needs', () => {
  const cluster = ['a', 'b', 'c'].map((id) => machine(id, 8))
  expect(takeWhole(cluster, 16).map((one) => one.machineId)).toEqual(['a', 'b'])
})

test('prices whole machines by their size, and parts by their GPU count', () => {
  const priced = (pricedGpus: number, machineType: Demand['machineType'], gpuCount: number) =>
    isPricedBy(pricedGpus, { machineType, gpuCount })
  expect([priced(8, 'bare-metal', 24), priced(8, 'bare-metal', 12)]).toEqual([true, false])
  expect([priced(4, 'virtual-machine', 4), priced(4, 'virtual-machine', 8)]).toEqual([true, false])
})
