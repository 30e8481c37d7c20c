import { expect, test } from 'vitest'
import { cutPieces, type Piece } from './piece.ts'
import { CHARS_PER_SECOND, checkVoice, chooseKbps, PIECE_CHARS } from './voice.ts'

function piecesOf(text: string): readonly Piece[] {
  const pieces = cutPieces(text)
  if (!pieces.ok) throw new Error('no pieces')
  return pieces.value
}

test('splits a text into sentences with pauses, longer after a paragraph', () => {
  expect(piecesOf('Dr. Smith is 42. He left.\n\nIt rained!')).toEqual([
    { text: 'doctor Smith is forty two.', pauseMs: 250 },
    { text: 'He left.', pauseMs: 600 },
    { text: 'It rained!', pauseMs: 600 },
  ])
})

test('skips punctuation without words', () => {
  expect(piecesOf('One. * * * Two. 👍').map(({ text }) => text)).toEqual(['One.', 'Two.'])
})

test.each(['9'.repeat(2_000), 'word '.repeat(400), 'a'.repeat(2_000), 'one, '.repeat(400)])(
  'keeps every piece within the limit: %.9s…',
  (text) => {
    const pieces = piecesOf(text)
    expect(pieces.length).toBeGreaterThan(2_000 / PIECE_CHARS - 1)
    expect(Math.max(...pieces.map((piece) => piece.text.length))).toBeLessThanOrEqual(PIECE_CHARS)
  },
)

test('keeps the answer to the longest text below 64 MB', () => {
  expect(chooseKbps(1_000, 1)).toBe(64)
  const base64Bytes = ((100_000 / CHARS_PER_SECOND) * chooseKbps(100_000, 1) * 125 * 4) / 3
  expect(base64Bytes).toBeLessThan(64_000_000)
})

test('every name that clients send selects the voice, in any spelling', () => {
  const openai = 'alloy ash ballad cedar coral echo fable marin nova onyx sage shimmer verse'.split(' ')
  for (const speaker of [undefined, 'neural', 'EN-US', 'en_us', 'default', 'EN-Default', 'slt', 'KAL', ...openai]) {
    for (const language of [undefined, 'en', 'EN', 'en-US', 'EN_us']) {
      expect(checkVoice(speaker, language)).toEqual({ ok: true, value: undefined })
    }
  }
  expect(checkVoice('nobody', 'en')).toMatchObject({
    reason: 'not_available',
    message: expect.stringContaining('neural'),
  })
  expect(checkVoice('neural', 'de')).toMatchObject({
    reason: 'not_available',
    message: expect.stringContaining('en-US'),
  })
})
