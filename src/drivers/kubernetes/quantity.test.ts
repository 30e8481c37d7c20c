import { expect, test } from 'vitest'
import { parseQuantity } from './quantity.ts'

test.each([
  ['2', 2],
  ['250m', 0.25],
  ['1.5', 1.5],
  ['64Mi', 67_108_864],
  ['2Ti', 2_199_023_255_552],
  ['128974848', 128_974_848],
  ['129e6', 129_000_000],
  ['129M', 129_000_000],
  ['1E', 1e18],
  ['100n', 1e-7],
])('%s is %s', (text, value) => {
  expect(parseQuantity(text)).toBeCloseTo(value, 12)
})

test.each([undefined, '', 'many', '1X', '1 Mi', 'NaN', '1.2.3'])('%s is not a quantity', (text) => {
  expect(parseQuantity(text)).toBeUndefined()
})
