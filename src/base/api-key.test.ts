import { describe, expect, test } from 'vitest'
import { makeApiKey, parseApiKey } from './api-key.ts'

const made = makeApiKey()

test('formats a new key as bk_<public id>_<secret><checksum>, different each time', () => {
  expect(made.text).toMatch(/^bk_[0-9A-Za-z]{14}_[0-9A-Za-z]{49}$/)
  expect(made.text.startsWith(`bk_${made.publicId}_`)).toBe(true)
  expect(made.text.endsWith(made.last4)).toBe(true)
  expect(makeApiKey().publicId).not.toBe(made.publicId)
})

test('parses a key into its stored parts, without the secret', () => {
  const { publicId, secretHash } = made
  expect(parseApiKey(made.text)).toEqual({ kind: 'key', key: { publicId, secretHash } })
  expect(secretHash).toHaveLength(32)
  expect(made.text).not.toContain(secretHash.toString('base64url'))
})

describe('detects a typo', () => {
  test('in any character of the key', () => {
    const { length } = made.text
    for (let i = 'bk_'.length; i < length; i += 1) {
      const character = made.text.charAt(i)
      if (character === '_') continue
      const mistyped = made.text.slice(0, i) + (character === 'x' ? 'y' : 'x') + made.text.slice(i + 1)
      expect(parseApiKey(mistyped), `character ${i}`).toEqual({ kind: 'typo' })
    }
  })

  test('when two adjacent characters are swapped', () => {
    // The first two adjacent characters of the secret that differ.
    const secretAt = made.text.lastIndexOf('_') + 1
    const at = secretAt + made.text.slice(secretAt).search(/([0-9A-Za-z])(?!\1)/)
    const mistyped = made.text.slice(0, at) + made.text.charAt(at + 1) + made.text.charAt(at) + made.text.slice(at + 2)
    expect(parseApiKey(mistyped)).toEqual({ kind: 'typo' })
  })

  test.each([
    '',
    'bk_',
    'sk-abc',
    made.text.slice(0, -1),
    `${made.text}x`,
    ` ${made.text}`,
    made.text.replace('bk', 'BK'),
  ])('%j is not a key at all', (text) => {
    expect(parseApiKey(text)).toEqual({ kind: 'not_a_key' })
  })
})
