/** Increments, minimum periods and settlements of what a machine costs us. */
import { expect, test } from 'vitest'
import { addMs, HOUR_MS, instantOf, MINUTE_MS } from '../base/instant.ts'
import { costOfSpan, nanoUsdOf, usd } from '../base/money.ts'
import { affordableMs, billedUntil, costDue } from './purchase.ts'

const at = instantOf(Date.UTC(2026, 10, 16))

test.each([
  // [minutes used, increment in minutes, minimum in minutes, minutes billed]
  [0, 1, 0, 1],
  [0, 60, 0, 60],
  [0.5, 1, 0, 1],
  [60, 1, 0, 60],
  [61.1, 60, 0, 120],
  [5, 1, 60, 60],
  [61, 1, 60, 61],
  [10, 60, 24 * 60, 24 * 60],
])('%d min in increments of %d min, at least %d min, are billed as %d min', (used, increment, minimum, billed) => {
  const rules = { incrementMs: increment * MINUTE_MS, minimumMs: minimum * MINUTE_MS }
  expect(billedUntil(at, addMs(at, used * MINUTE_MS), rules)).toBe(addMs(at, billed * MINUTE_MS))
})

test('settlements in any steps add up to the price of the whole time', () => {
  const pricePerHour = usd('3.290000007')
  let settled = nanoUsdOf(0n)
  for (const ms of [1, 999, 7_777, MINUTE_MS, MINUTE_MS + 1, HOUR_MS, 3 * HOUR_MS + 17]) {
    settled = nanoUsdOf(settled + costDue({ startedAt: at, pricePerHour, settled }, addMs(at, ms)))
  }
  expect(settled).toBe(costOfSpan(pricePerHour, 3 * HOUR_MS + 17))
})

test.each([
  // [USD per hour, USD to spend, increment in minutes, minimum in minutes, minutes affordable]
  ['3.00', '2', 1, 0, 40],
  ['3.29', '2', 1, 0, 36],
  ['3.00', '2', 60, 0, 0],
  ['3.00', '7', 60, 0, 120],
  ['3.00', '2', 1, 60, 0],
  ['3.00', '0.04', 1, 0, 0],
])('at $%s per hour, $%s pay in steps of %d min, at least %d min, for %d min', (price, budget, step, minimum, pays) => {
  const rules = { incrementMs: step * MINUTE_MS, minimumMs: minimum * MINUTE_MS }
  const ms = affordableMs(usd(price), usd(budget), rules)
  expect(ms).toBe(pays * MINUTE_MS)
  const cost = ms === 0 ? 0n : costOfSpan(usd(price), billedUntil(at, addMs(at, ms), rules) - at)
  expect(cost).toBeLessThanOrEqual(usd(budget))
})
