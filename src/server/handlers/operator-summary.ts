/** The state of the whole installation in one response, for operators. */
import { limits } from '../../base/limits.ts'
import { ok } from '../../contract/result.ts'
import { countGpuModels, readCounts, type Count } from '../../store/platform/gauge.ts'
import { readMoneySummary } from '../../store/ledger/operator-summary.ts'
import { readRevenue } from '../../store/ledger/revenue.ts'
import type { Handlers } from '../http/handler.ts'

export const operatorSummaryHandlers = {
  getOperatorSummary: async (app) => {
    const now = app.clock.now()
    const [counts, gpuModels, money] = await Promise.all([
      readCounts(app.database.db, now),
      countGpuModels(app.database.db, limits.pageRows),
      readMoneySummary(app.database.db, now),
    ])
    const countOf = (kind: Count['of'], label?: string): number =>
      counts
        .filter((count) => count.of === kind && (label === undefined || count.label === label))
        .reduce((sum, { n }) => sum + n, 0)
    return ok({
      rentals: {
        running: countOf('rental', 'Running'),
        starting: countOf('rental', 'Pending'),
        unreachable: countOf('rental', 'Unknown'),
        failed: countOf('rental', 'Failed'),
        ending: countOf('rental', 'Terminating'),
        stuck: countOf('stuck rental'),
      },
      gpus: { total: countOf('gpu', 'total'), rented: countOf('gpu', 'claimed'), faulty: countOf('gpu', 'sick') },
      gpuModels,
      hosts: {
        total: countOf('host'),
        offline: countOf('host', 'silent'),
        quarantined: countOf('host', 'quarantined'),
      },
      pendingDeliveries: countOf('pending delivery'),
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

  getRevenue: async (app, { query }) => {
    const { days, runRatePerHour, payingAccounts } = await readRevenue(app.database.db, app.clock.now(), query.days)
    return ok({
      runRatePerHourUsd: runRatePerHour,
      payingAccounts,
      days: days.map(({ day, machines, storage, models }) => ({
        day,
        machinesUsd: machines,
        storageUsd: storage,
        modelsUsd: models,
      })),
    })
  },
} satisfies Partial<Handlers>
