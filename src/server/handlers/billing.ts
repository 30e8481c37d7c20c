/** Costs, usage and balance over HTTP. */
import { formatInstantWithOffset } from '../../base/instant.ts'
import { centsRoundedDown, nanoUsdToNumber } from '../../base/money.ts'
import { ok, type Result } from '../../contract/result.ts'
import { readBalance, readCostsOfRequests, readPurchases, readUsage } from '../../app/money/billing.ts'
import { verifyLedger } from '../../app/money/ledger-verify.ts'
import { nameRentals } from '../../store/rental/rental.ts'
import type { Handlers } from '../http/handler.ts'

export const billingHandlers = {
  getRequestCost: async (app, { actor, body }) => {
    const costs = await readCostsOfRequests(app, actor, body)
    return mapOk(costs, (rows) => ({
      requests: rows.map((row) => ({ requestId: row.requestId, costNanoUsd: nanoUsdToNumber(row.cost) })),
    }))
  },

  getUsageSummary: async (app, { actor, query }) => {
    const usage = await readUsage(app, actor, query)
    const ids = usage.ok && query.by === 'rental' ? usage.value.groups.map(({ group }) => Number(group)) : []
    const names = await nameRentals(app.database.db, actor.accountId, ids.filter(Number.isSafeInteger))
    return mapOk(usage, ({ from, to, total, groups, days }) => ({
      from,
      to,
      by: query.by,
      totalUsd: total,
      rows: groups.map(({ group, cost, requests }) => ({
        group,
        costUsd: cost,
        requests,
        rental: names.get(Number(group)) ?? null,
      })),
      ...(days === undefined ? {} : { days: days.map(({ day, group, cost }) => ({ day, group, costUsd: cost })) }),
    }))
  },

  getCustomerBalance: async (app, { actor }) =>
    mapOk(await readBalance(app, actor), (value) => ({
      balanceUsd: value.balance,
      unbilledUsd: value.unbilled,
      availableUsd: value.available,
      heldUsd: value.held,
      hourlySpendUsd: value.hourlySpend,
      volumeSpendUsd: value.volumeSpend,
      emptyAt: value.emptyAt,
      runway: { fundsUsd: value.runway.funds, hourlySpendUsd: value.runway.hourlySpend },
      creditLineUsd: value.creditLine,
      creditUsedUsd: value.creditUsed,
      debtUsd: value.debt,
      earningsUsd: value.earnings,
    })),

  getCurrentBalance: async (app, { actor }) =>
    mapOk(await readBalance(app, actor), (value) => ({
      credits: centsRoundedDown(value.balance),
      balance_usd: value.balance,
      hourly_spend_usd: value.hourlySpend,
      empty_at: value.emptyAt,
    })),

  getPurchaseHistory: async (app, { actor }) =>
    mapOk(await readPurchases(app, actor), (purchases) => ({
      purchase_history: purchases.map(({ amount, at, source, memo }) => ({
        amount: centsRoundedDown(amount).toString(),
        timestamp: formatInstantWithOffset(at),
        source,
        memo,
      })),
    })),

  verifyLedger: async (app) =>
    mapOk(await verifyLedger(app), ({ house, ...verdict }) => ({
      ...verdict,
      houseUsd: Object.fromEntries(house),
    })),
} satisfies Partial<Handlers>

export function mapOk<From, To>(result: Result<From>, map: (value: From) => To): Result<To> {
  return result.ok ? ok(map(result.value)) : result
}
