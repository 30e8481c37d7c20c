/** Costs and the statement by day over HTTP. */
import { z } from 'zod'
import { exportStatement, readCosts, readDailyStatement, type DailyLine } from '../../app/money/cost.ts'
import { MAX_INT32 } from '../../base/limits.ts'
import type { Api } from '../../contract/api.ts'
import { statementDay } from '../../contract/cost.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { ok } from '../../contract/result.ts'
import type { StatementDayPlace } from '../../store/ledger/cost.ts'
import { badCursor, decodeCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'
import { renderStatementCsv } from './statement-csv.ts'

export const costHandlers = {
  getCosts: async (app, { actor, query }) => {
    const costs = await readCosts(app, actor, query)
    if (!costs.ok) return costs
    const { from, to, total, groups, days, month } = costs.value
    return ok({
      from,
      to,
      groupBy: query.groupBy,
      totalUsd: total,
      groups: groups.map(({ id, name, service, cost }) => ({ id, name, kind: service, costUsd: cost })),
      days: days.map(({ day, cost, costs }) => ({ day, costUsd: cost, costsUsd: [...costs] })),
      month: {
        month: month.month,
        spentUsd: month.spent,
        unbilledUsd: month.unbilled,
        hourlySpendUsd: month.hourlySpend,
        modelsPerHourUsd: month.modelsPerHour,
        forecastUsd: month.atMonthEnd,
      },
    })
  },

  getDailyStatement: async (app, { actor, query }) => {
    const after = query.cursor === undefined ? undefined : placeOf(query.cursor)
    if (query.cursor !== undefined && after === undefined) return badCursor()
    const statement = await readDailyStatement(app, actor, {
      from: query.from,
      to: query.to,
      limit: rowsToAsk(query.limit),
      ...(after === undefined ? {} : { after }),
    })
    if (!statement.ok) return statement
    const { from, to, opening, closing } = statement.value
    const { rows, nextCursor } = pageOf(statement.value.lines, query.limit, ({ place }) =>
      JSON.stringify(Object.values(place)),
    )
    return ok({
      from,
      to,
      openingBalanceUsd: opening,
      closingBalanceUsd: closing,
      lines: rows.map(lineOnWire),
      nextCursor,
    })
  },

  exportStatement: async (app, { actor, query }) => {
    const statement = await exportStatement(app, actor, query)
    return statement.ok ? ok(renderStatementCsv(statement.value)) : statement
  },
} satisfies Partial<Handlers>

function lineOnWire(line: DailyLine): ResponseOf<Api['getDailyStatement']>['lines'][number] {
  const { day, kind, description, service, rentalId, volumeId, model, postings } = line
  const { amount: amountUsd, balanceAfter: balanceAfterUsd } = line
  return { day, kind, description, service, rentalId, volumeId, model, postings, amountUsd, balanceAfterUsd }
}

const { day, kind, service } = statementDay.shape
const id = z.int().min(0).max(MAX_INT32)
const place = z.tuple([day, kind, service.unwrap(), id, id, z.string().max(200)])

/** The fields of a line's place, in the order of `listStatementDays`. */
function placeOf(cursor: string): StatementDayPlace | undefined {
  const read = place.safeParse(parseJson(decodeCursor(cursor) ?? ''))
  if (!read.success) return undefined
  const [day, kind, service, rental_id, volume_id, model] = read.data
  return { day, kind, service, rental_id, volume_id, model }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // The cursor is not ours.
    return undefined
  }
}
