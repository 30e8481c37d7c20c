/** Prices of vendors become nano-USD exactly, and never less than the vendor charges. */
import { expect, test } from 'vitest'
import { fromCents, fromDecimal, fromNumber } from './vendor-price.ts'

test.each([
  ['2.49', 2_490_000_000n],
  ['0', 0n],
  ['27.92', 27_920_000_000n],
  ['1.5e-3', 1_500_000n],
  ['12e2', 1_200_000_000_000n],
  ['1e-7', 100n],
  ['0.000000001', 1n],
  ['0.0000000001', 1n],
  ['0.1234567891', 123_456_790n],
  ['1.10000000000000000000', 1_100_000_000n],
])('reads %s', (text, nano) => {
  expect(fromDecimal(text)).toBe(nano)
})

test.each(['', '-1', 'NaN', '1,5', '1.2.3', '0x10', '1e999'])('rejects %s', (text) => {
  expect(() => fromDecimal(text)).toThrow(/not a price/)
})

test('reads JSON numbers by their shortest form, and cents as whole numbers', () => {
  expect(fromNumber(0.1 + 0.2)).toBe(300_000_001n)
  expect(fromNumber(1e-7)).toBe(100n)
  expect(fromNumber(3.29)).toBe(3_290_000_000n)
  expect(() => fromNumber(Number.NaN)).toThrow(/not a price/)
  expect(fromCents(329)).toBe(3_290_000_000n)
  expect(() => fromCents(1.5)).toThrow(/cents/)
})
