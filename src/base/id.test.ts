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

  test('gives as many characters for as many bytes, and never one text for two values', () => {
    const bytes = fc.uint8Array({ minLength: 15, maxLength: 15 })
    fc.assert(
      fc.property(bytes, bytes, (a, b) => {
        expect(base62(a)).toMatch(/^[0-9A-Za-z]{21}$/)
        expect(base62(a) === base62(b)).toBe(Buffer.compare(a, b) === 0)
        // Texts sort as the numbers do, since digits come before capitals and capitals before small letters.
        expect(base62(a) < base62(b)).toBe(Buffer.compare(a, b) < 0)
      }),
    )
  })
})

test('a random id says what it names and is never the same twice', () => {
  const ids = Array.from({ length: 1_000 }, () => randomId('acc'))
  expect(new Set(ids).size).toBe(1_000)
  for (const id of ids) expect(id).toMatch(/^acc_[0-9A-Za-z]{21}$/)
})

test('a random name is three words that a host name may hold', () => {
  const names = Array.from({ length: 1_000 }, () => randomName())
  for (const name of names) expect(name).toMatch(/^[a-z]+-[a-z]+-[a-z]+$/)
  expect(new Set(names).size).toBeGreaterThan(900)
})

test('sha256 is the known one', () => {
  expect(sha256('abc').toString('hex')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
})
