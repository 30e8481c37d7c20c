import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { addMs, DAY_MS, HOUR_MS, instantOf, MINUTE_MS } from '../base/instant.ts'
import { freeGpuMs, freeUntil, type FreeSpan } from './free-start.ts'

const MIDNIGHT = instantOf(Date.UTC(2026, 10, 17))
const at = (ms: number) => addMs(MIDNIGHT, ms)

test('two starts at a time use it up twice as fast, and time before midnight counts for the day before', () => {
  const spans: FreeSpan[] = [
    { from: at(-HOUR_MS), until: at(10 * MINUTE_MS), gpus: 1 },
    { from: at(HOUR_MS), until: null, gpus: 1 },
    { from: at(HOUR_MS), until: null, gpus: 4 },
  ]
  expect(freeGpuMs(spans, MIDNIGHT, at(HOUR_MS))).toBe(10 * MINUTE_MS)
  expect(freeUntil(spans, 60 * MINUTE_MS, MIDNIGHT, at(HOUR_MS + 9 * MINUTE_MS))).toBeNull()
  expect(freeUntil(spans, 60 * MINUTE_MS, MIDNIGHT, at(2 * HOUR_MS))).toBe(at(HOUR_MS + 10 * MINUTE_MS))
  expect(freeUntil(spans, 0, MIDNIGHT, at(2 * HOUR_MS))).toBe(MIDNIGHT)
})

test('free time reaches the allowance at that instant, not a millisecond earlier, whatever has started when', () => {
  const span = fc
    .record({
      from: fc.integer({ min: -DAY_MS, max: DAY_MS }),
      ms: fc.option(fc.nat({ max: DAY_MS })),
      gpus: fc.integer({ min: 1, max: 8 }),
    })
    .map(({ from, ms, gpus }): FreeSpan => ({ from: at(from), until: ms === null ? null : at(from + ms), gpus }))
  fc.assert(
    fc.property(fc.array(span, { maxLength: 6 }), fc.nat({ max: 8 * HOUR_MS }), (spans, allowance) => {
      const now = at(DAY_MS)
      const until = freeUntil(spans, allowance, MIDNIGHT, now)
      const used = freeGpuMs(spans, MIDNIGHT, until ?? now)
      expect(used >= allowance).toBe(until !== null)
      const before = until === null || until === MIDNIGHT ? -1 : freeGpuMs(spans, MIDNIGHT, addMs(until, -1))
      expect(before).toBeLessThan(Math.max(allowance, 0) + (until === MIDNIGHT ? 1 : 0))
    }),
  )
})
