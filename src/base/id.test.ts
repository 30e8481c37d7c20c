import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { base62, randomId, randomName, sha256 } from './id.ts'

describe('base62', () => {
  test.each([
    [[], ''],
    [[0], '00'],
    [[61], '0z'],
    [[62], '10'],
    [[255], '47'],
    [[0, 0, 0, 0], '000000'],
    [[255, 255, 255, 255], '4gfFC3'],
  ])('of %j is %j', (bytes, text) => {
    expect(base62(Uint8Array.from(bytes))).toBe(text)
  })

  test('encodes equal lengths to equal lengths, and different values to different texts', () => {
    const bytes = fc.uint8Array({ minLength: 15, maxLength: 15 })
    fc.assert(
      fc.property(bytes, bytes, (a, b) => {
        expect(base62(a)).toMatch(/^[0-9A-Za-z]{21}$/)
        expect(base62(a) === base62(b)).toBe(Buffer.compare(a, b) === 0)
        // Encoded texts sort like the numbers: digits, then upper case, then lower case.
        expect(base62(a) < base62(b)).toBe(Buffer.compare(a, b) < 0)
      }),
    )
  })
})

test('prefixes a random ID with its kind, and never repeats it', () => {
  const ids = Array.from({ length: 1_000 }, () => randomId('acc'))
  expect(new Set(ids).size).toBe(1_000)
  for (const id of ids) expect(id).toMatch(/^acc_[0-9A-Za-z]{21}$/)
})

test('makes a random name of three words that is valid as a host name', () => {
  const names = Array.from({ length: 1_000 }, () => randomName())
  for (const name of names) expect(name).toMatch(/^[a-z]+-[a-z]+-[a-z]+$/)
  expect(new Set(names).size).toBeGreaterThan(900)
})

test('computes SHA-256', () => {
  expect(sha256('abc').toString('hex')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
})
