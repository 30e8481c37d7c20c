import { expect, test } from 'vitest'
import { instantOf } from '../base/instant.ts'
import { usd, zeroUsd } from '../base/money.ts'
import { forecastMonth } from './cost.ts'

test('the forecast is what is spent, plus current spend and average inference until the end of the month', () => {
  // Ten days and an hour before December.
  const now = instantOf(Date.UTC(2026, 10, 20, 23))
  const cost = { billed: usd('100'), unbilled: usd('0.5'), hourlySpend: usd('2'), recentModels: usd('16.8') }
  expect(forecastMonth(cost, now)).toEqual({
    spent: usd('100.5'),
    modelsPerHour: usd('0.1'),
    atMonthEnd: usd('606.6'),
  })
})

test('an account that uses nothing stays at nothing', () => {
  const cost = { billed: zeroUsd, unbilled: zeroUsd, hourlySpend: zeroUsd, recentModels: zeroUsd }
  expect(forecastMonth(cost, instantOf(Date.UTC(2026, 11, 31, 23, 59))).atMonthEnd).toBe(0n)
})
