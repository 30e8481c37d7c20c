import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { groupForWhole, rankForShare, type Candidate } from './placement.ts'

function machine(machineId: string, gpusFree: number, clusterName = 'one', gpusTotal = 8): Candidate {
  return { machineId, clusterName, gpusTotal, gpusFree }
}

/** `a7` is the machine a with seven of its eight GPUs free. */
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
    // order, machines, in which order they are tried
    [1, 'a8 b2 c1 d0', 'c b a'],
    [2, 'a8 b2 c1 d0', 'b a'],
    [8, 'a7 b8 c8', 'b c'],
    [4, 'c4 a4 b4', 'a b c'],
    [9, 'a8 b8', ''],
  ])('%i of %s: the fullest that fits comes first', (gpuCount, all, order) => {
    const ranked = rankForShare(machines(all), gpuCount)
    expect(ranked.map((one) => one.machineId).join(' ')).toBe(order)
  })

  test('every machine with room is tried, and no other', () => {
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
  test('come from one cluster, the one with the least to spare first', () => {
    const all = [machine('a', 8, 'big'), machine('c', 8, 'big'), machine('b', 8, 'big'), machine('d', 8, 'small')]
    const groups = groupForWhole([...all, machine('e', 7, 'small'), machine('f', 8, 'small')], 16)
    expect(groups.map((group) => group.map((one) => one.machineId).join(' '))).toEqual(['d f', 'a b c'])
  })

  test('are never taken in part, and a cluster that is too small is left out', () => {
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
