import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { findUnspeakable, foldLetters, hasWords, spellOut } from './spoken-english.ts'

const say = (text: string): string => spellOut(foldLetters(text))

describe('spells out a text', () => {
  test.each([
    ['Pi is 3.14.', 'Pi is three point one four.'],
    ['1,204,000 and 15', 'one million two hundred four thousand and fifteen'],
    ['0 or 007', 'zero or zero zero seven'],
    ['In 1984, 2009 and 2024', 'In nineteen eighty four, two thousand nine and twenty twenty four'],
    ['In 1905 and 1900', 'In nineteen oh five and nineteen hundred'],
    ['the 1st, 22nd and 30th', 'the first, twenty second and thirtieth'],
    ['$1 or £12.50', 'one dollar or twelve pounds and fifty pence'],
    ['€0.99, $3.5 million', 'ninety nine cents, three point five million dollars'],
    ['at 3:05 or 16:30', 'at three oh five or sixteen thirty'],
    ['7% of R&D', 'seven percent of R and D'],
    ['-5 degrees', 'minus five degrees'],
    ['20°C', 'twenty degrees C'],
    ['Dr. Smith vs. Mrs. Jones', 'doctor Smith versus missus Jones'],
    ['e.g. at example.com', 'for example at example dot com'],
    ['a well-known café’s naïve Ærø', "a well known cafe's naive AEro"],
    ['“Hello” — he said (twice); then: no…', 'Hello, he said, twice, then, no…'],
    ['πr', 'pi r'],
    ['H200 GPU', 'H two hundred GPU'],
    ['THIS IS ALL LOUD', 'this is all loud'],
    ['A WARNING from the FBI', 'A warning from the FBI'],
    [
      '12345678901234567890',
      Array.from('12345678901234567890')
        .map((digit) => say(digit))
        .join(' '),
    ],
    [
      '1,234,567,890,123,456,789',
      Array.from('1234567890123456789')
        .map((digit) => say(digit))
        .join(' '),
    ],
    ["'tis rock 'n' roll", 'tis rock n roll'],
    ['*bold* _text_ 👍 [link]', 'bold text, link,'],
  ])('%j', (text, words) => {
    expect(say(text)).toBe(words)
  })

  test('returns only words and punctuation for any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        expect(say(text)).toMatch(/^[a-z',.!?… ]*$/i)
      }),
    )
  })
})

test('finds letters of other scripts, but not symbols or emoji', () => {
  expect(findUnspeakable(foldLetters('Ünïted Straße 你好 你 👍 € привет'))).toEqual(Array.from('你好привет'))
  expect(findUnspeakable(foldLetters('λ → ∞ 👩‍👩‍👧 ¼ ﬁve'))).toEqual([])
})

test('finds no words in punctuation', () => {
  expect(hasWords(foldLetters('?! … 👍 "'))).toBe(false)
  expect(hasWords(foldLetters('½'))).toBe(true)
})
