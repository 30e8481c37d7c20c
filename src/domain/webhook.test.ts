import { expect, test } from 'vitest'
import { DAY_MS, HOUR_MS, instantOf } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { isFailing, parseRetryAfter, retryDelayMs } from './webhook.ts'

const half = () => 0.5
const now = instantOf(Date.UTC(2026, 0, 1))

test('delays grow to four hours and end after the last attempt', () => {
  const waits = Array.from({ length: limits.webhookAttempts }, (_, i) => retryDelayMs(i + 1, half, undefined))
  const seconds = waits.map((ms) => (ms === undefined ? 'end' : ms / 1_000))
  expect(seconds).toEqual([5, 30, 120, 600, 1800, 3600, 7200, 14400, 14400, 14400, 14400, 'end'])
})

test('varies each delay by up to 20%', () => {
  expect([retryDelayMs(2, () => 0, undefined), retryDelayMs(2, () => 1, undefined)]).toEqual([24_000, 36_000])
})

test('Retry-After makes a delay longer, never shorter, up to four hours', () => {
  expect(retryDelayMs(1, half, 60_000)).toBe(60_000)
  expect(retryDelayMs(3, half, 60_000)).toBe(120_000)
  expect(retryDelayMs(1, half, 30 * DAY_MS)).toBe(4 * HOUR_MS)
  expect(retryDelayMs(limits.webhookAttempts, half, 1_000)).toBeUndefined()
})

test('Retry-After is seconds or a date', () => {
  const of = (header: string | undefined) => parseRetryAfter(header, now)
  expect([of('120'), of('0'), of('Thu, 01 Jan 2026 00:01:00 GMT')]).toEqual([120_000, 0, 60_000])
  expect([of(undefined), of('soon'), of('-5'), of('Wed, 31 Dec 2025 00:00:00 GMT')]).toEqual(
    Array.from({ length: 4 }, () => undefined),
  )
})

test('counts as failing after fifty failures in a row or five days of failures', () => {
  const streak = (failed: number, days: number) => isFailing({ failed, since: instantOf(now - days * DAY_MS) }, now)
  expect([streak(49, 4.9), streak(50, 0), streak(2, 5), isFailing({ failed: 0, since: null }, now)]).toEqual([
    false,
    true,
    true,
    false,
  ])
})
