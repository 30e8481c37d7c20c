import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  centsRoundedDown,
  costOfSpan,
  discounted,
  floorDivide,
  formatUsd,
  formatUsdExactly,
  formatUsdForPeople,
  maxUsd,
  minUsd,
  nanoUsdOf,
  nanoUsdToNumber,
  parseUsd,
  shareOf,
  spanAffordable,
  sumUsd,
  usd,
  usdFromNumber,
  usdToNumber,
} from './money.ts'

const anyAmount = fc.bigInt({ min: -(10n ** 18n) + 1n, max: 10n ** 18n - 1n }).map(nanoUsdOf)
const someAmount = fc.bigInt({ min: 0n, max: 10n ** 15n }).map(nanoUsdOf)
const somePrice = fc.bigInt({ min: 0n, max: 10n ** 13n }).map(nanoUsdOf)
const someMs = fc.integer({ min: 0, max: 10 * 366 * 86_400_000 })

describe('texts', () => {
  test.each([
    ['0', 0n],
    ['12.50', 12_500_000_000n],
    ['-0.000000001', -1n],
    ['999999999.999999999', 999_999_999_999_999_999n],
    ['9223372036.854775807', 9_223_372_036_854_775_807n],
    ['007', 7_000_000_000n],
  ])('%s is read', (text, nano) => expect(parseUsd(text)).toBe(nano))

  test.each([
    '',
    '.',
    '.5',
    '5.',
    '1,000',
    '1e3',
    '+1',
    ' 1',
    '1 ',
    '0x1',
    '1.0000000001',
    '1234567890123',
    '--1',
    '１',
  ])('%j is refused', (text) => {
    expect(parseUsd(text)).toBeUndefined()
    expect(() => usd(text)).toThrow('not an amount')
  })

  test('round-trips', () => {
    fc.assert(
      fc.property(anyAmount, (amount) => {
        expect(parseUsd(formatUsd(amount))).toBe(amount)
      }),
    )
  })

  test.each([
    [0n, '0.000000000', '$0.00', '$0.00'],
    [3_614_200_000n, '3.614200000', '$3.6142', '$3.61'],
    [3_615_000_000n, '3.615000000', '$3.615', '$3.62'],
    [-3_615_000_000n, '-3.615000000', '-$3.615', '-$3.62'],
    [999_960_000n, '0.999960000', '$0.99996', '$1.00'],
    [996_000_000n, '0.996000000', '$0.996', '$0.996'],
    [614_250_000n, '0.614250000', '$0.61425', '$0.6143'],
    [500_000_000n, '0.500000000', '$0.50', '$0.50'],
    [100_000n, '0.000100000', '$0.0001', '$0.0001'],
    [99_999n, '0.000099999', '$0.000099999', '<$0.0001'],
    [-1n, '-0.000000001', '-$0.000000001', '-<$0.0001'],
    [1_234_567_500_000_000n, '1234567.500000000', '$1,234,567.50', '$1,234,567.50'],
    [-1_000_000_000_000n, '-1000.000000000', '-$1,000.00', '-$1,000.00'],
  ])('formats %s nano-dollars as %s, %s exactly and %s for people', (nano, wire, exact, people) => {
    expect(formatUsd(nanoUsdOf(nano))).toBe(wire)
    expect(formatUsdExactly(nanoUsdOf(nano))).toBe(exact)
    expect(formatUsdForPeople(nanoUsdOf(nano))).toBe(people)
  })
})

describe('JSON numbers', () => {
  test('round-trips a price with nine decimals', () => {
    // Below $8 million a double can distinguish adjacent nano-dollars.
    const exact = fc.bigInt({ min: -(8n * 10n ** 15n), max: 8n * 10n ** 15n }).map(nanoUsdOf)
    fc.assert(
      fc.property(exact, (amount) => {
        expect(usdFromNumber(usdToNumber(amount))).toBe(amount)
      }),
    )
  })

  test('rejects invalid amounts', () => {
    for (const number of [Number.NaN, Number.POSITIVE_INFINITY, 1e10, 1e21, -1e21]) {
      expect(usdFromNumber(number)).toBeUndefined()
    }
    expect(usdFromNumber(0.1)).toBe(100_000_000n)
    expect(usdFromNumber(2.3)).toBe(2_300_000_000n)
  })

  test('throws rather than rounds nano-dollars beyond a safe integer', () => {
    expect(nanoUsdToNumber(nanoUsdOf(9_007_199_254_740_991n))).toBe(9_007_199_254_740_991)
    expect(() => nanoUsdToNumber(nanoUsdOf(9_007_199_254_740_992n))).toThrow(RangeError)
  })

  test.each([
    [9_999_999n, 0],
    [10_000_000n, 1],
    [3_614_200_000n, 361],
    [-1n, -1],
    [0n, 0],
  ])('%s nano-dollars are %s whole cents', (nano, cents) => expect(centsRoundedDown(nanoUsdOf(nano))).toBe(cents))
})

describe('spans', () => {
  test('rounds a fraction of a nano-dollar in favor of the customer', () => {
    expect(costOfSpan(usd('3.60'), 1)).toBe(1_000n)
    expect(costOfSpan(nanoUsdOf(3_599_999n), 1)).toBe(0n)
    expect(costOfSpan(nanoUsdOf(3_600_000n), 1)).toBe(1n)
    expect(costOfSpan(usd('23.92'), 3_600_000)).toBe(usd('23.92'))
  })

  test('two parts cost as much as the whole, or one nano-dollar less', () => {
    fc.assert(
      fc.property(somePrice, someMs, someMs, (price, a, b) => {
        const apart = costOfSpan(price, a) + costOfSpan(price, b)
        const whole = costOfSpan(price, a + b)
        expect(whole - apart === 0n || whole - apart === 1n).toBe(true)
      }),
    )
  })

  test('finds the last millisecond that a budget covers', () => {
    const price = fc.bigInt({ min: 1n, max: 10n ** 13n }).map(nanoUsdOf)
    fc.assert(
      fc.property(price, someAmount, (price, budget) => {
        const ms = spanAffordable(price, budget)
        fc.pre(ms < Number.MAX_SAFE_INTEGER)
        expect(costOfSpan(price, ms) <= budget).toBe(true)
        expect(costOfSpan(price, ms + 1) > budget).toBe(true)
      }),
      { numRuns: 1_000 },
    )
  })

  test('a price of zero lasts forever, and a negative budget covers nothing', () => {
    expect(spanAffordable(usd('0'), usd('0'))).toBe(Number.MAX_SAFE_INTEGER)
    expect(spanAffordable(nanoUsdOf(1n), usd('999999999'))).toBe(Number.MAX_SAFE_INTEGER)
    expect(spanAffordable(usd('1'), usd('-1'))).toBe(0)
    expect(spanAffordable(usd('1'), usd('0'))).toBe(0)
  })
})

describe('shares', () => {
  test('a share and the rest never exceed the whole', () => {
    fc.assert(
      fc.property(someAmount, fc.integer({ min: 0, max: 10_000 }), (amount, bp) => {
        const difference = amount - shareOf(amount, bp) - shareOf(amount, 10_000 - bp)
        expect(difference === 0n || difference === 1n).toBe(true)
      }),
    )
  })

  test.each([
    ['23.92', 0, '23.92'],
    ['23.92', 25, '17.94'],
    ['23.92', 16.1, '20.06888'],
    ['0.000000001', 0.01, '0'],
    ['1', 99.99, '0.0001'],
  ])('%s less %s percent is %s', (price, percentage, less) => {
    expect(discounted(usd(price), percentage)).toBe(usd(less))
  })

  test.each([
    [7n, 2n, 3n],
    [-7n, 2n, -4n],
    [7n, -2n, -4n],
    [-7n, -2n, 3n],
    [-6n, 2n, -3n],
    [0n, 5n, 0n],
  ])('%s / %s rounds down to %s', (dividend, divisor, quotient) => {
    expect(floorDivide(dividend, divisor)).toBe(quotient)
  })

  test('computes minimum, maximum and sum', () => {
    expect(minUsd(usd('1'), usd('2'))).toBe(usd('1'))
    expect(maxUsd(usd('1'), usd('2'))).toBe(usd('2'))
    expect(sumUsd([usd('0.1'), usd('0.2'), usd('-0.05')])).toBe(usd('0.25'))
    expect(sumUsd([])).toBe(0n)
  })
})
