import { expect, test } from 'vitest'
import { findReadPart } from './read-part.ts'

/** One piece per letter. */
const count = (text: string): number => text.length

test.each([
  ['red apple', 8, 'red apple'],
  ['red apple', 7, 'red'],
  [' red\napple  pie', 8, ' red\napple'],
  ['apple', 4, ''],
  ['', 4, ''],
])('the part of %j that fits %d pieces is %j', (text, maxPieces, part) => {
  expect(findReadPart(text, maxPieces, count)).toBe(part)
})
