/**
 * Pages. A list asks the store for one row more than the page holds; the extra row only tells that there is a next
 * page. A cursor is the id of the last row given, in base64url so that nobody builds on what is in it.
 */
import { failField, type Failure } from '../contract/result.ts'

export function encodeCursor(text: string): string {
  return Buffer.from(text, 'utf8').toString('base64url')
}

/** undefined: we did not make it. */
export function decodeCursor(cursor: string): string | undefined {
  const text = Buffer.from(cursor, 'base64url').toString('utf8')
  // Node skips what is not base64url and replaces what is not UTF-8; only what comes back the same was ours. Control
  // characters would be refused by PostgreSQL, and no id of ours has them.
  return text !== '' && encodeCursor(text) === cursor && !/\p{Cc}/u.test(text) ? text : undefined
}

/** For lists whose ids are numbers: the id fits a bigint column, or the cursor is bad. */
export function decodeIdCursor(cursor: string): bigint | undefined {
  const text = decodeCursor(cursor)
  return text !== undefined && /^\d{1,18}$/.test(text) ? BigInt(text) : undefined
}

export function badCursor(): Failure {
  return failField(['cursor'], 'bad_cursor')
}

export interface Page<Row> {
  readonly rows: Row[]
  readonly nextCursor: string | null
}

/** How many rows to ask for, so that `pageOf` can tell whether there are more. */
export function rowsToAsk(limit: number): number {
  return limit + 1
}

/** Cuts what `rowsToAsk(limit)` brought; `idOf` is what the next page starts after. */
export function pageOf<Row>(
  found: readonly Row[],
  limit: number,
  idOf: (row: Row) => string | number | bigint,
): Page<Row> {
  const rows = found.slice(0, limit)
  const last = rows.at(-1)
  const more = found.length > limit && last !== undefined
  return { rows, nextCursor: more ? encodeCursor(String(idOf(last))) : null }
}
