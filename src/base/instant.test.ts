import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  addMs,
  DAY_MS,
  earlier,
  formatInstant,
  formatInstantOrNull,
  formatInstantWithOffset,
  instantOf,
  later,
  parseInstant,
  startOfDay,
  startOfMonth,
  startOfNextMonth,
  systemClock,
  toDate,
  toDateOrNull,
} from './instant.ts'

const at = instantOf(Date.UTC(2028, 1, 29, 23, 59, 59, 7))
/** Years 1970 to 9999. */
const anyInstant = fc.integer({ min: 0, max: 253_402_300_799_999 }).map(instantOf)

describe('text format', () => {
  test('is UTC with milliseconds', () => {
    expect(formatInstant(at)).toBe('2028-02-29T23:59:59.007Z')
    expect(formatInstantWithOffset(at)).toBe('2028-02-29T23:59:59.007+00:00')
    expect(formatInstantOrNull(at)).toBe(formatInstant(at))
    expect(formatInstantOrNull(null)).toBeNull()
  })

  test('round-trips to the millisecond', () => {
    fc.assert(
      fc.property(anyInstant, (instant) => {
        expect(parseInstant(formatInstant(instant))).toBe(instant)
        expect(parseInstant(formatInstantWithOffset(instant))).toBe(instant)
      }),
    )
  })

  test('accepts other offsets', () => {
    expect(parseInstant('2028-03-01T01:59:59.007+02:00')).toBe(at)
  })

  test.each(['', 'tomorrow', '2028-13-01T00:00:00Z', '2028-02-29T25:00:00Z', '2027-02-29T00:00:00Z', '2026-04-31'])(
    '%j is not valid',
    (text) => {
      expect(parseInstant(text)).toBeUndefined()
    },
  )
})

test('converts an instant to a Date for the store and back', () => {
  expect(toDate(at).getTime()).toBe(at)
  expect(toDateOrNull(at)?.getTime()).toBe(at)
  expect(toDateOrNull(null)).toBeNull()
})

test('returns the earlier and the later of two instants', () => {
  const next = addMs(at, 1)
  expect([earlier(at, next), earlier(next, at), later(at, next), later(next, at)]).toEqual([at, at, next, next])
})

describe('days and months in UTC', () => {
  test('across the end of a leap February', () => {
    expect(formatInstant(startOfDay(at))).toBe('2028-02-29T00:00:00.000Z')
    expect(formatInstant(startOfMonth(at))).toBe('2028-02-01T00:00:00.000Z')
    expect(formatInstant(startOfNextMonth(at))).toBe('2028-03-01T00:00:00.000Z')
  })

  test('across the end of a year', () => {
    const last = instantOf(Date.UTC(2027, 11, 31, 12))
    expect(formatInstant(startOfNextMonth(last))).toBe('2028-01-01T00:00:00.000Z')
  })

  test('contain every instant that they start for', () => {
    fc.assert(
      fc.property(anyInstant, (instant) => {
        const day = startOfDay(instant)
        expect(instant - day).toBeGreaterThanOrEqual(0)
        expect(instant - day).toBeLessThan(DAY_MS)
        expect(startOfMonth(instant)).toBeLessThanOrEqual(instant)
        expect(startOfNextMonth(instant)).toBeGreaterThan(instant)
        expect(startOfMonth(startOfNextMonth(instant))).toBe(startOfNextMonth(instant))
      }),
    )
  })
})

test('the system clock advances in whole milliseconds', () => {
  const now = systemClock.now()
  expect(Number.isSafeInteger(now)).toBe(true)
  expect(systemClock.now()).toBeGreaterThanOrEqual(now)
})
