/** Whom an order interrupts: checked against all subsets of random machines. */
import { describe, expect, test } from 'vitest'
import { addMs, instantOf, MINUTE_MS } from '../base/instant.ts'
import { chooseInterrupted, isFreeRun, waitSeconds, type Interruptible } from './interruption.ts'

const NOON = instantOf(Date.parse('2026-03-01T12:00:00.000Z'))
const RUNS = 3_000

/** A generator with a seed, so that a failure can be repeated. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor((state / 2_147_483_648) * below)
  }
}

function gpusOf(rentals: readonly Interruptible[]): number {
  return rentals.reduce((sum, { gpus }) => sum + gpus, 0)
}

function isYounger(one: Interruptible, other: Interruptible): boolean {
  return one.runsSince > other.runsSince || (one.runsSince === other.runsSince && one.rentalId > other.rentalId)
}

/** What is wrong with the choice of rentals for so many GPUs. */
function faultsOf(
  candidates: readonly Interruptible[],
  needed: number,
  choice: readonly Interruptible[] | undefined,
): string[] {
  if (choice === undefined) return gpusOf(candidates) < needed ? [] : ['nobody, although there are enough']
  return [
    ...(gpusOf(choice) < needed ? ['too few'] : []),
    ...choice.flatMap((one) => {
      const younger = candidates.filter((other) => isYounger(other, one))
      return [
        ...(gpusOf(choice) - one.gpus < needed ? [] : [`${one.rentalId} is unnecessary`]),
        ...(gpusOf(younger) < needed ? [] : [`those younger than ${one.rentalId} would do`]),
      ]
    }),
  ]
}

describe('the rentals that an order interrupts', () => {
  test('are enough, none is unnecessary, and nobody older gives way while the younger alone would do', () => {
    for (let seed = 1; seed <= RUNS; seed += 1) {
      const random = randomFrom(seed)
      const candidates = Array.from({ length: random(8) }, (_, n) => ({
        rentalId: n + 1,
        runsSince: addMs(NOON, random(5) * MINUTE_MS),
        gpus: random(5),
        noticeSeconds: 60 + random(541),
      }))
      const needed = 1 + random(8)
      const faults = faultsOf(candidates, needed, chooseInterrupted(candidates, needed))
      expect([seed, ...faults]).toEqual([seed])
      // The order of the list does not matter.
      expect(chooseInterrupted(candidates.toReversed(), needed)).toEqual(chooseInterrupted(candidates, needed))
    }
  })

  test('promise 37: the wait is the longest of their notices and the stop', () => {
    expect(waitSeconds([{ noticeSeconds: 60 }, { noticeSeconds: 300 }, { noticeSeconds: 120 }])).toBe(330)
  })

  test('promise 38: a run is free if its interruption is announced within its first ten minutes', () => {
    expect(isFreeRun(NOON, addMs(NOON, 10 * MINUTE_MS - 1))).toBe(true)
    expect(isFreeRun(NOON, addMs(NOON, 10 * MINUTE_MS))).toBe(false)
  })
})
