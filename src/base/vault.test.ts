import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { makeVault } from './vault.ts'

const vault = makeVault('the secret key of a test')

test('round-trips any text', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(makeVault('the secret key of a test').open(vault.seal(text))).toBe(text)
    }),
  )
})

test('a sealed text does not reveal its content, and differs each time', () => {
  const sealed = vault.seal('whsec_secret')
  expect(sealed).toMatch(/^v1\.[\w-]+$/)
  expect(Buffer.from(sealed.slice(3), 'base64url').toString('latin1')).not.toContain('secret')
  expect(vault.seal('whsec_secret')).not.toBe(sealed)
})

describe('rejects a sealed text', () => {
  const sealed = vault.seal('text')

  test('under another key', () => {
    expect(() => makeVault('another secret key').open(sealed)).toThrow(Error)
  })

  test('with any single bit changed', () => {
    const bytes = Buffer.from(sealed.slice(3), 'base64url')
    for (let i = 0; i < bytes.length; i += 1) {
      const changed = Buffer.from(bytes)
      changed.writeUInt8(changed.readUInt8(i) ^ 1, i)
      expect(() => vault.open(`v1.${changed.toString('base64url')}`), `byte ${i}`).toThrow(Error)
    }
  })

  test.each(['', 'v1.', 'v1.AAAA', sealed.slice(0, -2)])('truncated to %j', (text) => {
    expect(() => vault.open(text)).toThrow(Error)
  })
})

describe('while the key changes', () => {
  const [older, newer] = ['the older key of a test', 'the newer key of a test']
  const changing = makeVault(newer, [older])

  test('texts under either key are opened, and new ones are sealed under the newer', () => {
    expect(changing.open(makeVault(older).seal('before'))).toBe('before')
    expect(changing.open(makeVault(newer).seal('after'))).toBe('after')
    expect(makeVault(newer).open(changing.seal('now'))).toBe('now')
    expect(() => changing.open(makeVault('a third key').seal('x'))).toThrow(Error)
  })

  test('only texts under the older key are sealed again', () => {
    const resealed = changing.reseal(makeVault(older).seal('before'))
    expect(makeVault(newer).open(resealed ?? '')).toBe('before')
    expect(changing.reseal(changing.seal('x'))).toBeUndefined()
    expect(() => changing.reseal(makeVault('a third key').seal('x'))).toThrow(Error)
  })

  test('keys for a purpose are those of both, the newer first', () => {
    expect(changing.deriveAll('p')).toEqual([makeVault(newer).derive('p'), makeVault(older).derive('p')])
    expect(changing.derive('p')).toEqual(makeVault(newer).derive('p'))
  })
})
