import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cutLong, splitSentences } from './sentence.ts'

const texts = (text: string): string[] => splitSentences(text).map((sentence) => sentence.text)

describe('splits a text into sentences', () => {
  test.each<[string, string[]]>([
    ['One. Two! Three? Four', ['One.', 'Two!', 'Three?', 'Four']],
    ['Dr. Smith met Mrs. Jones. They spoke.', ['Dr. Smith met Mrs. Jones.', 'They spoke.']],
    ['Pi is 3.14 or so. Nearly.', ['Pi is 3.14 or so.', 'Nearly.']],
    ['It costs $1,000.50. Go to example.com. Now.', ['It costs $1,000.50.', 'Go to example.com.', 'Now.']],
    ['“Stop!” he said. “Why?” she asked.', ['“Stop!” he said.', '“Why?” she asked.']],
    ['He said "No." Then he left.', ['He said "No."', 'Then he left.']],
    ['(It was late.) We left.', ['(It was late.)', 'We left.']],
    ['See No. 5 on p. 7. I say no. Then go.', ['See No. 5 on p. 7.', 'I say no.', 'Then go.']],
    ['J. S. Bach wrote it. So did I. Yes.', ['J. S. Bach wrote it.', 'So did I.', 'Yes.']],
    ['Use tools, e.g. a saw. Bring nails etc. and glue.', ['Use tools, e.g. a saw.', 'Bring nails etc. and glue.']],
    ['Bring nails etc. Then begin.', ['Bring nails etc.', 'Then begin.']],
    ['Wait... what? Well… Yes.', ['Wait... what?', 'Well…', 'Yes.']],
    ['Hello.World.This', ['Hello.World.This']],
    ['今日は。元気？はい。', ['今日は。', '元気？', 'はい。']],
    ['Élan vital. Ça va? Ünder.', ['Élan vital.', 'Ça va?', 'Ünder.']],
    ['A wrapped\nline goes on. And\r\nso on.', ['A wrapped line goes on.', 'And so on.']],
    ['Nothing but spaces follow.   \n ', ['Nothing but spaces follow.']],
    ['   ', []],
  ])('%j', (text, sentences) => {
    expect(texts(text)).toEqual(sentences)
  })

  test('ends a paragraph at a blank line or a bullet, with or without a full stop', () => {
    expect(splitSentences('A title\n\nIt begins. It goes on.\n- one\n- two')).toEqual([
      { text: 'A title', endsParagraph: true },
      { text: 'It begins.', endsParagraph: false },
      { text: 'It goes on.', endsParagraph: true },
      { text: '- one', endsParagraph: true },
      { text: '- two', endsParagraph: true },
    ])
  })

  test('loses no characters except spaces', () => {
    const words = fc.array(fc.oneof(fc.constantFrom('Dr.', 'a', '!', '. ', '…', '\n\n', '”', '。', ' '), fc.string()))
    fc.assert(
      fc.property(words, (parts) => {
        const bare = (text: string): string => text.replaceAll(/\s+/g, '')
        expect(bare(texts(parts.join('')).join(''))).toBe(bare(parts.join('')))
      }),
    )
  })
})

describe('splits a long sentence', () => {
  test('at commas first, then at spaces, then between characters', () => {
    expect(cutLong('one two three, four five six', 20)).toEqual(['one two three,', 'four five six'])
    expect(cutLong('a, bcdefgh ijklmnop qrst', 12)).toEqual(['a, bcdefgh', 'ijklmnop', 'qrst'])
    expect(cutLong('abcdefghij', 4)).toEqual(['abcd', 'efgh', 'ij'])
  })

  test('never within a character', () => {
    expect(cutLong('😀😀😀', 3)).toEqual(['😀', '😀', '😀'])
    expect(cutLong('eeee\u0301e', 4)).toEqual(['eee', 'e\u0301e'])
  })

  test('into parts that fit, without losing text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 300 }), fc.integer({ min: 8, max: 60 }), (text, max) => {
        const parts = cutLong(text, max)
        expect(parts.every((part) => part.length > 0 && part.length <= max)).toBe(true)
        expect(parts.join('').replaceAll(/\s+/g, '')).toBe(text.replaceAll(/\s+/g, ''))
      }),
    )
  })
})
