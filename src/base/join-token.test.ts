import { expect, test } from 'vitest'
import { sha256 } from './id.ts'
import { hashJoinToken, makeJoinToken } from './join-token.ts'

test('identifies a token by the hash of its secret, and detects a typo', () => {
  const { id, text, hash } = makeJoinToken()
  expect(id).toMatch(/^jtk_[0-9A-Za-z]{21}$/)
  expect(hashJoinToken(text)).toEqual(hash)
  expect(hash).toEqual(sha256(text.slice('bj_'.length, -6)))
  for (const at of [3, 20, text.length - 1]) {
    const other = text[at] === 'a' ? 'b' : 'a'
    expect(hashJoinToken(`${text.slice(0, at)}${other}${text.slice(at + 1)}`)).toBeUndefined()
  }
  for (const wrong of ['', 'bj_', `x${text}`, `${text}x`, text.slice(0, -1)])
    expect(hashJoinToken(wrong)).toBeUndefined()
  expect(makeJoinToken().text).not.toBe(text)
})
