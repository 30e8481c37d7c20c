/** The rentals of all accounts over HTTP, for operators. */
import type { Instant } from '../../base/instant.ts'
import { MAX_INT32 } from '../../base/limits.ts'
import { ok } from '../../contract/result.ts'
import { readAccountNames } from '../../store/account/account.ts'
import { listAllRentals } from '../../store/rental/rental.ts'
import { badCursor, decodeIdCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'

export const operatorRentalHandlers = {
  listAllRentals: async (app, { query }) => {
    const beforeId = query.cursor === undefined ? undefined : decodeIdCursor(query.cursor)
    if (query.cursor !== undefined && (beforeId === undefined || beforeId > BigInt(MAX_INT32))) return badCursor()
    const rentals = await listAllRentals(app.database.db, {
      q: query.q,
      ...(query.accountId === undefined ? {} : { accountId: query.accountId }),
      ...(query.status === undefined ? {} : { status: query.status }),
      ...(query.stuck === undefined ? {} : { stuck: query.stuck }),
      ...(beforeId === undefined ? {} : { before: Number.parseInt(beforeId.toString(), 10) }),
      limit: rowsToAsk(query.limit),
    })
    const page = pageOf(rentals, query.limit, (rental) => rental.id)
    const nameOf = await readAccountNames(
      app.database.db,
      page.rows.map((rental) => rental.account_id),
    )
    return ok({
      rentals: page.rows.map((rental) => ({
        id: rental.id,
        accountId: rental.account_id,
        accountName: nameOf(rental.account_id),
        kind: rental.kind,
        name: rental.name,
        driver: rental.driver,
        region: rental.region,
        gpuCount: rental.gpu_count,
        status: rental.status,
        statusReason: rental.status_reason,
        statusSince: rental.status_since,
        stuckSince: rental.stuck_at,
        externalId: rental.external_id,
        attempts: rental.attempts,
        ...lastErrorOf(rental),
      })),
      nextCursor: page.nextCursor,
    })
  },
} satisfies Partial<Handlers>

export function lastErrorOf(row: { last_error: string | null; last_error_at: Instant | null }) {
  return { lastError: row.last_error, lastErrorAt: row.last_error_at }
}
