/**
 * Pagination. A list requests one row more than a page from the store; the extra row only shows that there is a next
 * page. A cursor is the last row's id in base64url, so that clients treat it as opaque.
 */
import { failField, type Failure } from '../../contract/result.ts'

export function encodeCursor(text: string): string {
  return Buffer.from(text, 'utf8').toString('base64url')
}

/** undefined: the cursor is not ours. */
export function decodeCursor(cursor: string): string | undefined {
  const text = Buffer.from(cursor, 'base64url').toString('utf8')
  // Node skips invalid base64url and replaces invalid UTF-8, so a cursor must encode back to itself. PostgreSQL refuses
  // control characters, and no id has them.
  return text !== '' && encodeCursor(text) === cursor && !/\p{Cc}/u.test(text) ? text : undefined
}

/** Reads the cursor of a list with numeric ids. undefined: the id does not fit a bigint column. */
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

/** The number of rows to read: one more than the limit, so that `pageOf` can tell whether there are more. */
export function rowsToAsk(limit: number): number {
  return limit + 1
}

/** Cuts the rows of `rowsToAsk(limit)` to a page; the next page starts after `idOf` of its last row. */
export function pageOf<Row>(
  matches: readonly Row[],
  limit: number,
  idOf: (row: Row) => string | number | bigint,
): Page<Row> {
  const rows = matches.slice(0, limit)
  const last = rows.at(-1)
  const hasMore = matches.length > limit && last !== undefined
  return { rows, nextCursor: hasMore ? encodeCursor(String(idOf(last))) : null }
}
