import { describe, expect, test } from 'vitest'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../base/instant.ts'
import { age, localDate, localTime, relativeTime, shortSpan, span, utcTime } from './time.ts'

const NOW = Date.parse('2026-11-14T12:00:00.000Z')
const at = (ms: number): string => new Date(NOW + ms).toISOString()

describe('spans', () => {
  test.each([
    [0, '0 seconds', '0s'],
    [-5, '0 seconds', '0s'],
    [SECOND_MS, '1 second', '1s'],
    [59_999, '59 seconds', '59s'],
    [MINUTE_MS, '1 minute', '1m'],
    [90 * SECOND_MS, '1 minute', '1m'],
    [2 * HOUR_MS, '2 hours', '2h'],
    [2 * HOUR_MS + 5 * MINUTE_MS, '2 hours 5 minutes', '2h'],
    [DAY_MS + HOUR_MS, '1 day 1 hour', '1d'],
    [1_234 * DAY_MS, '1,234 days', '1,234d'],
  ])('%s ms is shown as %s, or %s in a column', (ms, long, short) => {
    expect(span(ms)).toBe(long)
    expect(shortSpan(ms)).toBe(short)
  })

  test('a balance without charges lasts indefinitely', () => {
    expect(span(Number.POSITIVE_INFINITY)).toBe('indefinitely')
  })
})

test.each([
  [-200, 'just now'],
  [-3 * MINUTE_MS, '3 minutes ago'],
  [-HOUR_MS, '1 hour ago'],
  [2 * DAY_MS + HOUR_MS, 'in 2 days'],
])('%s ms from now is %s', (ms, text) => expect(relativeTime(at(ms), NOW)).toBe(text))

test('a missing time is a dash in the console and empty in a terminal', () => {
  expect([relativeTime(null, NOW), localTime(null), localDate(undefined)]).toEqual(['—', '—', '—'])
  expect([utcTime(null), age(null, NOW)]).toEqual(['', ''])
})

test('terminals show times in UTC', () => {
  expect(utcTime('2026-11-14T12:00:00.123Z')).toBe('2026-11-14 12:00:00Z')
  expect(age(at(-3 * HOUR_MS), NOW)).toBe('3h')
})
