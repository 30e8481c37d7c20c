/** Revenue and cost of rentals at other clouds over HTTP, for operators. */
import { addMs, DAY_MS, formatDay } from '../../base/instant.ts'
import { nanoUsdOf } from '../../base/money.ts'
import { ok } from '../../contract/result.ts'
import { listMargins } from '../../store/provider/purchase.ts'
import type { Handlers } from '../http/handler.ts'

const DEFAULT_DAYS = 30
const MAX_MARGINS = 1_000

export const marginHandlers = {
  listMargins: async (app, { query }) => {
    const now = app.clock.now()
    const from = query.from ?? formatDay(addMs(now, -DEFAULT_DAYS * DAY_MS))
    const to = query.to ?? formatDay(now)
    const { by, name } = query
    const filter = { by, from, to, limit: MAX_MARGINS, ...(name === undefined ? {} : { account: name }) }
    const margins = await listMargins(app.database.db, filter)
    return ok({
      margins: margins.map(({ subject, revenue, cost }) => ({
        subject,
        revenueUsd: revenue,
        costUsd: cost,
        marginUsd: nanoUsdOf(revenue - cost),
      })),
    })
  },
} satisfies Partial<Handlers>
