import { expect, test } from 'vitest'
import { cutPieces, type Piece } from './piece.ts'
import { chooseKbps, families, voices } from './voice.ts'

function piecesOf(text: string, speaker: string): readonly Piece[] {
  const voice = voices.find((one) => one.speaker === speaker)
  const pieces = voice === undefined ? undefined : cutPieces(text, voice)
  if (pieces?.ok !== true) throw new Error('no pieces')
  return pieces.value
}

test('splits a text into sentences with pauses, longer after a paragraph', () => {
  expect(piecesOf('Dr. Smith is 42. He left.\n\nIt rained!', 'slt')).toEqual([
    { text: 'Dr. Smith is 42.', pauseMs: 250 },
    { text: 'He left.', pauseMs: 600 },
    { text: 'It rained!', pauseMs: 600 },
  ])
  expect(piecesOf('Dr. Smith is 42.', 'neural').map(({ text }) => text)).toEqual(['doctor Smith is forty two.'])
})

test('skips punctuation without words', () => {
  expect(piecesOf('One. * * * Two. 👍', 'neural').map(({ text }) => text)).toEqual(['One.', 'Two.'])
})

test.each(voices.map((voice) => [voice.speaker, voice] as const))(
  'keeps every piece within the limit of %s',
  (speaker, voice) => {
    const { pieceChars } = families[voice.family]
    for (const text of ['9'.repeat(2_000), 'word '.repeat(400), 'a'.repeat(2_000), 'one, '.repeat(400)]) {
      const pieces = piecesOf(text, speaker)
      expect(pieces.length).toBeGreaterThan(2_000 / pieceChars - 1)
      expect(Math.max(...pieces.map((piece) => piece.text.length))).toBeLessThanOrEqual(pieceChars)
    }
  },
)

test.each(voices.map((voice) => [voice.speaker, voice] as const))(
  'keeps the answer to the longest text of %s below 64 MB',
  (_, voice) => {
    const { charsPerSecond, mp3Kbps } = families[voice.family]
    expect(chooseKbps(voice, 1_000, 1)).toBe(mp3Kbps)
    const kbps = chooseKbps(voice, 100_000, 1)
    const base64Bytes = ((100_000 / charsPerSecond) * kbps * 125 * 4) / 3
    expect(base64Bytes).toBeLessThan(64_000_000)
  },
)
