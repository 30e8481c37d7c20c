/** The statement of an account over HTTP. */
import { instantOf } from '../../base/instant.ts'
import { readStatement } from '../../app/money/billing.ts'
import { nameRentals } from '../../store/rental/rental.ts'
import type { Handlers } from '../http/handler.ts'
import { badCursor, decodeCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import { mapOk } from './billing.ts'

export const statementHandlers = {
  getStatement: async (app, { actor, query }) => {
    const place = query.cursor === undefined ? undefined : statementPlace(query.cursor)
    if (query.cursor !== undefined && place === undefined) return badCursor()
    const statement = await readStatement(app, actor, {
      limit: rowsToAsk(query.limit),
      ...(place === undefined ? {} : { before: place }),
    })
    const ids = statement.ok ? statement.value.flatMap(({ rentalId }) => rentalId ?? []) : []
    const names = await nameRentals(app.database.db, actor.accountId, [...new Set(ids)])
    return mapOk(statement, (lines) => {
      const page = pageOf(lines, query.limit, (line) => `${line.at}.${line.id}`)
      return {
        lines: page.rows.map(({ amount, balanceAfter, ...line }) => ({
          ...line,
          id: line.id.toString(),
          at: line.at,
          rental: (line.rentalId === null ? undefined : names.get(line.rentalId)) ?? null,
          amountUsd: amount,
          balanceAfterUsd: balanceAfter,
        })),
        nextCursor: page.nextCursor,
      }
    })
  },
} satisfies Partial<Handlers>

/** A statement is ordered by time, then posting; its cursor holds both. */
function statementPlace(cursor: string) {
  const match = /^(\d{1,15})\.(\d{1,18})$/.exec(decodeCursor(cursor) ?? '')
  const [, ms, id] = match ?? []
  return ms === undefined || id === undefined ? undefined : { at: instantOf(Number.parseInt(ms, 10)), id: BigInt(id) }
}
