import fc from 'fast-check'
import { expect, test } from 'vitest'
import { planHouseMoney } from './house-money.ts'

const nano = fc.bigInt({ min: 0n, max: 10n ** 15n })

test('after a transfer the account has money for an hour at most, and nothing more is moved', () => {
  fc.assert(
    fc.property(nano, fc.bigInt({ min: -(10n ** 15n), max: 10n ** 15n }), (perHour, free) => {
      const moved = planHouseMoney({ perHour, free })
      const after = free + moved
      expect(after <= perHour && after * 2n >= perHour).toBe(true)
      expect(planHouseMoney({ perHour, free: after })).toBe(0n)
    }),
  )
})

test('without replicas everything goes back', () => {
  expect(planHouseMoney({ perHour: 0n, free: 7n })).toBe(-7n)
  expect(planHouseMoney({ perHour: 0n, free: 0n })).toBe(0n)
})
