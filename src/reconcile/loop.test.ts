import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { instantOf, systemClock, type Instant } from '../base/instant.ts'
import { startLoops, type Loops } from './loop.ts'

/** Work of the loop `bell`, by the instant at which it comes due. */
let work: Instant[] = []
/** How far from now each question about due work looked, in milliseconds. */
let horizons: number[] = []
/** When `bell` ran, in milliseconds from the start. */
let passes: number[] = []
let broken = false
let loops: Loops
let startedAt: Instant

beforeEach(async () => {
  vi.useFakeTimers()
  work = []
  horizons = []
  passes = []
  broken = false
  startedAt = systemClock.now()
  const bell = {
    name: 'bell',
    due: () => sql<boolean>`true`,
    run: async () => {
      passes.push(systemClock.now() - startedAt)
      work = work.filter((at) => at > systemClock.now())
      return false
    },
  }
  loops = startLoops([bell], {
    clock: systemClock,
    readDue: async (_, at) => {
      horizons.push(at - systemClock.now())
      if (broken) throw new Error('the database is away')
      return work.some((one) => one <= at) ? ['bell'] : []
    },
    onError: () => {},
  })
  // The first pass of each loop, and the question after it.
  await vi.advanceTimersByTimeAsync(1_500)
  horizons = []
  passes = []
})
afterEach(async () => {
  const stopped = loops.stop()
  await vi.runAllTimersAsync()
  await stopped
  vi.useRealTimers()
})

const inMs = (ms: number): Instant => instantOf(systemClock.now() + ms)

test('without work asks once in five seconds, for the next five', async () => {
  await vi.advanceTimersByTimeAsync(20_000)
  expect(horizons.filter((ahead) => ahead === 5_000)).toHaveLength(4)
  expect(horizons.filter((ahead) => ahead === 0).length).toBeLessThanOrEqual(5)
  horizons = []
  await vi.advanceTimersByTimeAsync(10_000)
  expect(horizons).toEqual([5_000, 5_000])
  expect(passes).toEqual([])
})

test('runs work that comes due by itself within a second of its time', async () => {
  await vi.advanceTimersByTimeAsync(10_000)
  work = [inMs(12_300)]
  const dueAt = work[0] ?? 0
  await vi.advanceTimersByTimeAsync(30_000)
  expect(passes).toHaveLength(1)
  const lateMs = (passes[0] ?? 0) + startedAt - dueAt
  expect(lateMs).toBeGreaterThanOrEqual(0)
  expect(lateMs).toBeLessThan(1_100)
})

test('after a change finds work within a second', async () => {
  await vi.advanceTimersByTimeAsync(10_000)
  work = [inMs(0)]
  loops.noteChange()
  await vi.advanceTimersByTimeAsync(1_100)
  expect(passes).toHaveLength(1)
})

test('finds work that another program wrote, later', async () => {
  await vi.advanceTimersByTimeAsync(10_000)
  work = [inMs(0)]
  await vi.advanceTimersByTimeAsync(6_100)
  expect(passes).toHaveLength(1)
})

test('a question that failed is asked again', async () => {
  await vi.advanceTimersByTimeAsync(10_000)
  broken = true
  await vi.advanceTimersByTimeAsync(6_000)
  broken = false
  work = [inMs(0)]
  await vi.advanceTimersByTimeAsync(3_000)
  expect(passes).toHaveLength(1)
})
