import fc from 'fast-check'
import { expect, test } from 'vitest'
import { offerOfUnit, unitId, unitsOf } from './unit.ts'

test('distinguishes a unit of an offer from a machine', () => {
  expect(offerOfUnit(unitId('cloud-h100x8', 12))).toBe('cloud-h100x8')
  expect(offerOfUnit(unitId('cloud.1', 2))).toBe('cloud.1')
  expect(offerOfUnit('mock-lab-h100-01')).toBeUndefined()
})

test('keeps rented units, adds as many free ones as the engine can still create, and counts nothing twice', () => {
  const rented = fc.uniqueArray(fc.integer({ min: 1, max: 40 }), { maxLength: 12 })
  fc.assert(
    fc.property(rented, fc.nat({ max: 12 }), fc.nat({ max: 100 }), (numbers, unconfirmed, available) => {
      const known = numbers.map((n, index) => ({
        id: unitId('offer', n),
        isRented: true,
        isUnconfirmed: index < unconfirmed,
      }))
      const units = unitsOf('offer', available, known)
      const pending = Math.min(unconfirmed, numbers.length)
      expect(new Set(units).size).toBe(units.length)
      expect(units).toEqual(expect.arrayContaining(known.map(({ id }) => id)))
      expect(units).toHaveLength(numbers.length + Math.min(64, Math.max(0, available - pending)))
    }),
  )
})

test('offers a few units where the count is unknown, fewer while orders are unconfirmed', () => {
  const unit = (n: number, isUnconfirmed: boolean) => ({ id: unitId('offer', n), isRented: true, isUnconfirmed })
  expect(unitsOf('offer', null, [])).toEqual(['offer.1', 'offer.2'])
  expect(unitsOf('offer', null, [unit(1, true)])).toEqual(['offer.1', 'offer.2'])
  expect(unitsOf('offer', null, [unit(1, false)])).toEqual(['offer.1', 'offer.2', 'offer.3'])
})
