import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { HOUR_MS, instantOf } from '../base/instant.ts'
import { costOfSpan, nanoUsdOf, usd } from '../base/money.ts'
import { emptyAt, runwayChange, type RunwayChange } from './runway.ts'

const NOW = instantOf(Date.UTC(2026, 10, 14, 12))

describe('emptyAt', () => {
  test('is the last paid instant', () => {
    expect(emptyAt(usd('48'), usd('2'), NOW)).toBe(NOW + 24 * HOUR_MS)
    expect(emptyAt(usd('0'), usd('2'), NOW)).toBe(NOW)
    const price = fc.bigInt({ min: 3_600_000n, max: 10n ** 13n }).map(nanoUsdOf)
    const balance = fc.bigInt({ min: 0n, max: 10n ** 14n }).map(nanoUsdOf)
    fc.assert(
      fc.property(price, balance, (price, balance) => {
        const at = emptyAt(balance, price, NOW)
        if (at === null) throw new Error('it does end')
        expect(costOfSpan(price, at - NOW) <= balance).toBe(true)
        expect(costOfSpan(price, at - NOW + 1) > balance).toBe(true)
      }),
    )
  })

  test('is null without spend, or after the year 9999', () => {
    expect(emptyAt(usd('48'), usd('0'), NOW)).toBeNull()
    expect(emptyAt(usd('999999999'), nanoUsdOf(1n), NOW)).toBeNull()
    const far = emptyAt(usd('69000'), usd('0.001'), NOW)
    expect(far === null ? null : new Date(far).getUTCFullYear()).toBe(9898)
  })
})

describe('runwayChange', () => {
  const change = (hours: string, warnedH: number | null) => runwayChange(usd(hours), usd('1'), warnedH)
  const none: RunwayChange = { kind: 'none' }
  const clear: RunwayChange = { kind: 'clear' }
  const warn = (hours: number): RunwayChange => ({ kind: 'warn', hours })
  const relax = (hours: number): RunwayChange => ({ kind: 'relax', hours })

  test.each([
    // hours of runway, last warning, expected change
    ['25', null, none],
    ['24', null, none],
    ['23.99', null, warn(24)],
    ['23.99', 24, none],
    ['5', 24, warn(6)],
    // Topped up, but not above the first threshold: warns again when it falls again.
    ['20', 1, relax(24)],
    ['5', 1, relax(6)],
    ['5', null, warn(6)],
    ['0.5', 24, warn(1)],
    ['0.5', 6, warn(1)],
    ['0.5', 1, none],
    ['0', 1, none],
    ['100', 1, clear],
    ['24', 24, clear],
  ])('%s hours left, warned at %s', (hours, warned, expected) => {
    expect(change(hours, warned)).toEqual(expected)
  })

  test('does not warn without spend', () => {
    expect(runwayChange(usd('0'), usd('0'), null)).toEqual(none)
    expect(runwayChange(usd('0'), usd('0'), 6)).toEqual(clear)
  })

  test('warns once per threshold while a balance falls', () => {
    let warned: number | null = null
    const warnings: number[] = []
    for (let hours = 30; hours >= 0; hours -= 1) {
      const step = runwayChange(usd(String(hours)), usd('1'), warned)
      if (step.kind !== 'warn') continue
      warned = step.hours
      warnings.push(step.hours)
    }
    expect(warnings).toEqual([24, 6, 1])
  })
})
