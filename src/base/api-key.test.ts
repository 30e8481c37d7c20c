import { describe, expect, test } from 'vitest'
import { makeApiKey, parseApiKey } from './api-key.ts'

const apiKey = makeApiKey()

test('formats a new key as bk_<public id>_<secret><checksum>, different each time', () => {
  expect(apiKey.text).toMatch(/^bk_[0-9A-Za-z]{14}_[0-9A-Za-z]{49}$/)
  expect(apiKey.text.startsWith(`bk_${apiKey.publicId}_`)).toBe(true)
  expect(apiKey.text.endsWith(apiKey.last4)).toBe(true)
  expect(makeApiKey().publicId).not.toBe(apiKey.publicId)
})

test('parses a key into its stored parts, without the secret', () => {
  const { publicId, secretHash } = apiKey
  expect(parseApiKey(apiKey.text)).toEqual({ kind: 'key', key: { publicId, secretHash } })
  expect(secretHash).toHaveLength(32)
  expect(apiKey.text).not.toContain(secretHash.toString('base64url'))
})

describe('detects a typo', () => {
  test('in any character of the key', () => {
    const { length } = apiKey.text
    for (let i = 'bk_'.length; i < length; i += 1) {
      const character = apiKey.text.charAt(i)
      if (character === '_') continue
      const mistyped = apiKey.text.slice(0, i) + (character === 'x' ? 'y' : 'x') + apiKey.text.slice(i + 1)
      expect(parseApiKey(mistyped), `character ${i}`).toEqual({ kind: 'typo' })
    }
  })

  test('when two adjacent characters are swapped', () => {
    // The first two adjacent characters of the secret that differ.
    const secretAt = apiKey.text.lastIndexOf('_') + 1
    const at = secretAt + apiKey.text.slice(secretAt).search(/([0-9A-Za-z])(?!\1)/)
    const mistyped =
      apiKey.text.slice(0, at) + apiKey.text.charAt(at + 1) + apiKey.text.charAt(at) + apiKey.text.slice(at + 2)
    expect(parseApiKey(mistyped)).toEqual({ kind: 'typo' })
  })

  test.each([
    '',
    'bk_',
    'sk-abc',
    apiKey.text.slice(0, -1),
    `${apiKey.text}x`,
    ` ${apiKey.text}`,
    apiKey.text.replace('bk', 'BK'),
  ])('%j is not a key at all', (text) => {
    expect(parseApiKey(text)).toEqual({ kind: 'not_a_key' })
  })
})
