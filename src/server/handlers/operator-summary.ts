/** The state of the whole installation in one response, for operators. */
import { ok } from '../../contract/result.ts'
import { readCounts, type Count } from '../../store/platform/gauge.ts'
import { readMoneySummary } from '../../store/ledger/operator-summary.ts'
import type { Handlers } from '../http/handler.ts'

export const operatorSummaryHandlers = {
  getOperatorSummary: async (app) => {
    const now = app.clock.now()
    const [counts, money] = await Promise.all([
      readCounts(app.database.db, now),
      readMoneySummary(app.database.db, now),
    ])
    const of = (kind: Count['of'], label?: string): number =>
      counts
        .filter((count) => count.of === kind && (label === undefined || count.label === label))
        .reduce((sum, { n }) => sum + n, 0)
    return ok({
      rentals: {
        running: of('rental', 'Running'),
        starting: of('rental', 'Pending'),
        unreachable: of('rental', 'Unknown'),
        failed: of('rental', 'Failed'),
        ending: of('rental', 'Terminating'),
        stuck: of('stuck rental'),
      },
      gpus: { total: of('gpu', 'total'), rented: of('gpu', 'claimed'), faulty: of('gpu', 'sick') },
      hosts: { total: of('host'), offline: of('host', 'silent'), quarantined: of('host', 'quarantined') },
      pendingDeliveries: of('pending delivery'),
      money: {
        balancesUsd: money.balances,
        heldUsd: money.held,
        unpaidEarningsUsd: money.earnings,
        chargedTodayUsd: money.chargedToday,
        chargedThisMonthUsd: money.chargedThisMonth,
        paidInTodayUsd: money.paidInToday,
      },
    })
  },
} satisfies Partial<Handlers>
