import { describe, expect, test } from 'vitest'
import { usd } from '../base/money.ts'
import { editableUsd, exactMoney, money, gpuHourPrice, hourlyPrice, signedMoney } from './money.ts'

describe('money', () => {
  test.each([
    ['2.490000000', '$2.49'],
    [2.49, '$2.49'],
    [usd('1234.5'), '$1,234.50'],
    ['0.003142857', '$0.0031'],
    ['0.000000001', '<$0.0001'],
    ['-3', '-$3.00'],
  ])('%s reads %s', (amount, text) => expect(money(amount)).toBe(text))

  test('keeps every digit in exact amounts', () => {
    expect(exactMoney('0.003142857')).toBe('$0.003142857')
    expect(exactMoney('0.000050000')).toBe('$0.00005')
  })

  test('shows a text that is not an amount unchanged', () => expect(money('abc')).toBe('$abc'))

  test('writes common units', () => {
    expect(hourlyPrice('2.49')).toBe('$2.49/hr')
    expect(gpuHourPrice(2.49)).toBe('$2.49 per GPU-hour')
  })

  test('adds a sign to statement amounts', () => {
    expect(signedMoney('5')).toBe('+$5.00')
    expect(signedMoney('-5')).toBe('-$5.00')
    expect(signedMoney('0')).toBe('$0.00')
  })
})

test.each([
  ['2.490000000', '2.49'],
  ['0.000050000', '0.00005'],
  ['3', '3.00'],
  [null, ''],
])('an input field shows %s as %j', (wire, text) => expect(editableUsd(wire)).toBe(text))
