import { describe, expect, test } from 'vitest'
import { decodeCursor, decodeIdCursor, encodeCursor, pageOf, rowsToAsk } from './cursor.ts'

describe('cursors', () => {
  test('decode to the id they were made of', () => {
    for (const id of ['17', 'acc_4Yt', 'brave-teal-otter', 'é']) expect(decodeCursor(encodeCursor(id))).toBe(id)
    expect(decodeIdCursor(encodeCursor('900719925474099100'))).toBe(900_719_925_474_099_100n)
  })

  test('reject foreign text', () => {
    const notOurs = ['', '!!!', 'MTc=', 'MTc ', '_w', encodeCursor('\u0000'), encodeCursor('a\nb')]
    for (const cursor of notOurs) expect(decodeCursor(cursor)).toBeUndefined()
    for (const text of ['acc_1', '-1', '1.5', '1'.repeat(19)])
      expect(decodeIdCursor(encodeCursor(text))).toBeUndefined()
  })
})

describe('pages', () => {
  test('the extra row only shows that there is more', () => {
    expect(rowsToAsk(2)).toBe(3)
    expect(pageOf([5, 4, 3], 2, (row) => row)).toEqual({ rows: [5, 4], nextCursor: encodeCursor('4') })
    expect(pageOf([5, 4], 2, (row) => row)).toEqual({ rows: [5, 4], nextCursor: null })
    expect(pageOf([], 2, String)).toEqual({ rows: [], nextCursor: null })
  })
})
