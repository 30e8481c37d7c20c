/** Balance, statement and spend of a customer. Read-only. */
import { addMs, DAY_MS, formatDay, parseInstant, startOfDay } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { NanoUsd } from '../../base/money.ts'
import { failField, ok, type Result } from '../../contract/result.ts'
import { balanceOf, type Balance } from '../../domain/balance.ts'
import {
  listPurchases,
  listStatement,
  readRequestCosts,
  readSnapshot,
  sumUsage,
  sumUsageByDay,
  type Purchase,
  type RequestCost,
  type StatementLine,
  type StatementPlace,
  type UsageGroup,
  type UsageGrouping,
  type UsageOfDay,
} from '../../store/ledger/billing.ts'
import { readStanding } from '../../store/ledger/standing.ts'
import type { Actor, App } from '../app.ts'

export async function readBalance(app: App, actor: Actor): Promise<Result<Balance>> {
  const standing = await readSnapshot(app.database, (db) => readStanding(db, actor.accountId))
  return ok(balanceOf(standing, app.clock.now()))
}

export async function readStatement(
  app: App,
  actor: Actor,
  input: { before?: StatementPlace; limit: number },
): Promise<Result<StatementLine[]>> {
  return ok(await listStatement(app.database.db, actor.accountId, input))
}

/** Lists the newest purchase first. */
export async function readPurchases(app: App, actor: Actor): Promise<Result<Purchase[]>> {
  return ok(await listPurchases(app.database.db, actor.accountId, limits.plainListRows))
}

export async function readCostsOfRequests(
  app: App,
  actor: Actor,
  input: { requestIds: readonly string[] },
): Promise<Result<RequestCost[]>> {
  const recentCosts = await app.recentCosts?.(input.requestIds)
  const costs = input.requestIds.flatMap((requestId) => {
    const recent = recentCosts?.get(requestId)
    return recent?.accountId === actor.accountId ? [{ requestId, cost: recent.cost }] : []
  })
  const otherIds = input.requestIds.filter((id) => !costs.some(({ requestId }) => requestId === id))
  return ok([...costs, ...(await readRequestCosts(app.database.db, actor.accountId, otherIds))])
}

/** The longest period of a summary: a leap year. */
const MAX_USAGE_DAYS = 366
const USAGE_DAYS_DEFAULT = 30

export interface Usage {
  /** First and last day, as `2026-11-14`. */
  readonly from: string
  readonly to: string
  readonly total: NanoUsd
  readonly groups: readonly UsageGroup[]
  /** undefined: the request did not ask for daily costs. */
  readonly days: readonly UsageOfDay[] | undefined
}

/** Spend on the days `from` to `to`, both included. The list of groups is truncated. */
export async function readUsage(
  app: App,
  actor: Actor,
  input: { from?: string | undefined; to?: string | undefined; by: UsageGrouping; daily?: boolean | undefined },
): Promise<Result<Usage>> {
  const to = input.to === undefined ? startOfDay(app.clock.now()) : parseInstant(input.to)
  if (to === undefined) return failField(['to'], 'bad_range', { fault: 'format', maxDays: MAX_USAGE_DAYS })
  const from = input.from === undefined ? addMs(to, -(USAGE_DAYS_DEFAULT - 1) * DAY_MS) : parseInstant(input.from)
  if (from === undefined) return failField(['from'], 'bad_range', { fault: 'format', maxDays: MAX_USAGE_DAYS })
  if (from > to) return failField(['from'], 'bad_range', { fault: 'order', maxDays: MAX_USAGE_DAYS })
  const maxDays = input.daily === true ? limits.usageDailyDays : MAX_USAGE_DAYS
  if (to - from >= maxDays * DAY_MS) return failField(['from'], 'bad_range', { fault: 'length', maxDays })
  const usage = { from, until: addMs(to, DAY_MS), by: input.by, limit: limits.plainListRows }
  const { db } = app.database
  const [{ total, groups }, days] = await Promise.all([
    sumUsage(db, actor.accountId, usage),
    input.daily === true ? sumUsageByDay(db, actor.accountId, usage) : undefined,
  ])
  return ok({ from: formatDay(from), to: formatDay(to), total, groups, days })
}
