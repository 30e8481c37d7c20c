/** What a customer has, spends and has spent. Everything here reads; money is moved elsewhere. */
import { addMs, DAY_MS, earlier, formatInstant, parseInstant, startOfDay, type Instant } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { maxUsd, nanoUsdOf, sumUsd, zeroUsd, type NanoUsd } from '../base/money.ts'
import { failField, ok, type Result } from '../base/result.ts'
import { accrued } from '../domain/metering.ts'
import { emptyAt } from '../domain/runway.ts'
import {
  listOpenSegments,
  listPurchases,
  listStatement,
  readRequestCosts,
  readSnapshot,
  sumUsage,
  type Purchase,
  type RequestCost,
  type StatementLine,
  type StatementPlace,
  type UsageGroup,
  type UsageGrouping,
} from '../store/billing.ts'
import { readBalances } from '../store/ledger.ts'
import type { Actor, App } from './app.ts'

export interface Balance {
  /** The customer's and not spent yet: what has run up since the last charge is taken off. */
  readonly balance: NanoUsd
  readonly available: NanoUsd
  readonly held: NanoUsd
  readonly earnings: NanoUsd
  readonly hourlySpend: NanoUsd
  /** null: nothing runs, or it lasts longer than anyone plans for. */
  readonly emptyAt: Instant | null
}

export async function readBalance(app: App, actor: Actor): Promise<Result<Balance>> {
  // At one moment: a charge between two reads would be counted twice, or not at all.
  const { balances, segments } = await readSnapshot(app.database, async (db) => ({
    balances: await readBalances(db, actor.accountId),
    segments: await listOpenSegments(db, actor.accountId),
  }))
  const now = app.clock.now()
  const runUp = sumUsd(segments.map((segment) => accrued(segment, earlier(now, segment.meterStoodAt ?? now))))
  // A late meter may show more than there is; it will charge no more than there is.
  const balance = maxUsd(nanoUsdOf(balances.available + balances.held - runUp), zeroUsd)
  const hourlySpend = sumUsd(segments.map((segment) => segment.pricePerHour))
  return ok({ ...balances, balance, hourlySpend, emptyAt: emptyAt(balance, hourlySpend, now) })
}

export async function readStatement(
  app: App,
  actor: Actor,
  input: { before?: StatementPlace; limit: number },
): Promise<Result<StatementLine[]>> {
  return ok(await listStatement(app.database.db, actor.accountId, input))
}

/** Newest first. */
export async function readPurchases(app: App, actor: Actor): Promise<Result<Purchase[]>> {
  return ok(await listPurchases(app.database.db, actor.accountId, limits.plainListRows))
}

export async function readCostsOfRequests(
  app: App,
  actor: Actor,
  input: { requestIds: readonly string[] },
): Promise<Result<RequestCost[]>> {
  const known = input.requestIds.flatMap((requestId) => {
    const recent = app.recentCost?.(requestId)
    return recent?.accountId === actor.accountId ? [{ requestId, cost: recent.cost }] : []
  })
  const unknown = input.requestIds.filter((id) => !known.some(({ requestId }) => requestId === id))
  return ok([...known, ...(await readRequestCosts(app.database.db, actor.accountId, unknown))])
}

/** The longest stretch that a summary covers: a leap year. */
const USAGE_DAYS = 366
const USAGE_DAYS_DEFAULT = 30

export interface Usage {
  /** First and last day, as `2026-11-14`. */
  readonly from: string
  readonly to: string
  readonly total: NanoUsd
  readonly groups: readonly UsageGroup[]
}

/** What was spent on the days `from` to `to`, both included. The last groups are cut off where there are too many. */
export async function readUsage(
  app: App,
  actor: Actor,
  input: { from?: string | undefined; to?: string | undefined; by: UsageGrouping },
): Promise<Result<Usage>> {
  const to = input.to === undefined ? startOfDay(app.clock.now()) : parseInstant(input.to)
  if (to === undefined) return failField(['to'], 'Not a day such as "2026-11-14"', 'bad_range')
  const from = input.from === undefined ? addMs(to, -USAGE_DAYS_DEFAULT * DAY_MS) : parseInstant(input.from)
  if (from === undefined) return failField(['from'], 'Not a day such as "2026-11-14"', 'bad_range')
  if (from > to) return failField(['from'], 'The first day comes after the last', 'bad_range')
  if (to - from >= USAGE_DAYS * DAY_MS) {
    return failField(['from'], `A summary covers ${USAGE_DAYS} days at most`, 'bad_range')
  }
  const { total, groups } = await sumUsage(app.database.db, actor.accountId, {
    from,
    until: addMs(to, DAY_MS),
    by: input.by,
    limit: limits.plainListRows,
  })
  return ok({ from: dayOf(from), to: dayOf(to), total, groups })
}

function dayOf(at: Instant): string {
  return formatInstant(at).slice(0, 10)
}
