import fc from 'fast-check'
import { expect, test } from 'vitest'
import { RowBytes, rowsOf } from './row-bytes.ts'

test('gives back what was added, in pieces of whole rows', () => {
  const row = fc
    .tuple(fc.string({ unit: 'binary', maxLength: 40 }), fc.constantFrom(1, 1, 1, 700, 5_000))
    .map(([text, times]) => text.replaceAll('\n', ' ').repeat(times))
  fc.assert(
    fc.property(fc.array(row, { maxLength: 60 }), (rows) => {
      const bytes = new RowBytes()
      for (const [place, one] of rows.entries()) {
        bytes.add(one)
        expect(rowsOf(bytes.pieces()).length).toBe(place + 1)
      }
      const pieces = bytes.pieces()
      expect(rowsOf(pieces)).toEqual(rows)
      for (const piece of pieces) expect(piece.at(-1)).toBe(10)
    }),
  )
})
