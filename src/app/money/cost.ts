/** Costs by day and group, and the statement by day. Read-only; every amount is a sum of the ledger. */
import {
  addMs,
  DAY_MS,
  formatDay,
  formatInstant,
  parseInstant,
  startOfDay,
  startOfMonth,
  type Instant,
} from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { nanoUsdOf, sumUsd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { CostGrouping, CostService, StatementDay } from '../../contract/cost.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { monthDay } from '../../domain/budget.ts'
import { forecastMonth, MODEL_AVERAGE_DAYS, type Forecast } from '../../domain/cost.ts'
import { readSnapshot } from '../../store/ledger/billing.ts'
import { listAccruing } from '../../store/ledger/budget.ts'
import {
  listStatementDays,
  readBalanceBefore,
  readMonthSpend,
  sumCosts,
  sumService,
  type CostCell,
  type DayRange,
  type StatementDayPlace,
  type StatementDayRow,
} from '../../store/ledger/cost.ts'
import type { Db } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'
import { hourlySpendOf, unbilledOf } from './budget-spend.ts'

export interface RangeInput {
  readonly from?: string | undefined
  readonly to?: string | undefined
}

const COST_DAYS_DEFAULT = 30

/** Reads a range of days as `2026-11-14`. `fromOf` is the default of the first day. */
export function readRange(app: App, input: RangeInput, fromOf: (to: Instant) => Instant): Result<DayRange> {
  const maxDays = limits.costDays
  const to = input.to === undefined ? startOfDay(app.clock.now()) : parseInstant(input.to)
  if (to === undefined) return failField(['to'], 'bad_range', { fault: 'format', maxDays })
  const from = input.from === undefined ? fromOf(to) : parseInstant(input.from)
  if (from === undefined) return failField(['from'], 'bad_range', { fault: 'format', maxDays })
  if (from > to) return failField(['from'], 'bad_range', { fault: 'order', maxDays })
  if (to - from >= maxDays * DAY_MS) return failField(['from'], 'bad_range', { fault: 'length', maxDays })
  return ok({ from: formatDay(from), to: formatDay(to) })
}

export interface CostGroup {
  readonly id: string
  readonly name: string
  readonly service: CostService | null
  readonly cost: NanoUsd
}

export interface Costs extends DayRange {
  readonly total: NanoUsd
  /** The largest groups first, then one group with all others. */
  readonly groups: readonly CostGroup[]
  /** Every day of the range; `costs` in the order of the groups. */
  readonly days: ReadonlyArray<{ readonly day: string; readonly cost: NanoUsd; readonly costs: readonly NanoUsd[] }>
  readonly month: Forecast & {
    readonly month: string
    readonly unbilled: NanoUsd
    readonly hourlySpend: NanoUsd
  }
}

export async function readCosts(
  app: App,
  actor: Actor,
  input: RangeInput & { groupBy: CostGrouping; limit: number },
): Promise<Result<Costs>> {
  const range = readRange(app, input, (to) => addMs(to, -(COST_DAYS_DEFAULT - 1) * DAY_MS))
  if (!range.ok) return range
  return readSnapshot(app.database, async (db) => {
    const cells = await sumCosts(db, actor.accountId, range.value, { by: input.groupBy, limit: input.limit })
    const groups = groupsOf(cells)
    return ok({
      ...range.value,
      total: sumUsd(cells.map(({ cost }) => cost)),
      groups,
      days: daysOf(range.value, groups, cells),
      month: await forecastOf(db, actor.accountId, app.clock.now()),
    })
  })
}

function groupsOf(cells: readonly CostCell[]): CostGroup[] {
  const groups = new Map<string, CostGroup>()
  for (const { id, name, service, cost } of cells) {
    const previous = groups.get(id)
    groups.set(id, {
      id,
      name,
      service: previous === undefined || previous.service === service ? service : null,
      cost: nanoUsdOf((previous?.cost ?? 0n) + cost),
    })
  }
  const restRank = ({ id }: CostGroup): number => (id === 'rest' ? 1 : 0)
  return [...groups.values()].toSorted(
    (one, other) => restRank(one) - restRank(other) || (one.cost === other.cost ? 0 : one.cost > other.cost ? -1 : 1),
  )
}

function daysOf(range: DayRange, groups: readonly CostGroup[], cells: readonly CostCell[]): Costs['days'] {
  const byDay = new Map<string, Map<string, NanoUsd>>()
  for (const { day, id, cost } of cells) {
    const costs = byDay.get(day) ?? new Map<string, NanoUsd>()
    costs.set(id, nanoUsdOf((costs.get(id) ?? 0n) + cost))
    byDay.set(day, costs)
  }
  const days: Array<Costs['days'][number]> = []
  for (let at = parseInstant(range.from); at !== undefined && formatDay(at) <= range.to; at = addMs(at, DAY_MS)) {
    const costById = byDay.get(formatDay(at))
    const costs = groups.map(({ id }) => costById?.get(id) ?? zeroUsd)
    days.push({ day: formatDay(at), cost: sumUsd(costs), costs })
  }
  return days
}

async function forecastOf(db: Db, accountId: string, now: Instant): Promise<Costs['month']> {
  const accruing = (await listAccruing(db, [accountId])).get(accountId) ?? []
  const today = startOfDay(now)
  const recent = { from: formatDay(addMs(today, -MODEL_AVERAGE_DAYS * DAY_MS)), to: formatDay(addMs(today, -DAY_MS)) }
  const cost = {
    billed: await readMonthSpend(db, accountId, monthDay(now)),
    unbilled: unbilledOf(accruing, now),
    hourlySpend: hourlySpendOf(accruing),
    recentModels: await sumService(db, accountId, recent, 'models'),
  }
  const { unbilled, hourlySpend } = cost
  return { month: formatInstant(now).slice(0, 7), ...forecastMonth(cost, now), unbilled, hourlySpend }
}

export interface DailyLine extends Pick<StatementDay, 'day' | 'kind' | 'description' | 'model' | 'postings'> {
  readonly service: CostService | null
  readonly rentalId: number | null
  readonly volumeId: number | null
  readonly amount: NanoUsd
  readonly balanceAfter: NanoUsd
  readonly place: StatementDayPlace
}

export interface DailyStatement extends DayRange {
  readonly opening: NanoUsd
  readonly closing: NanoUsd
  readonly lines: readonly DailyLine[]
}

/** One line per day and resource, oldest first. Without `after`: `opening` plus the amounts of all lines is `closing`. */
export async function readDailyStatement(
  app: App,
  actor: Actor,
  input: RangeInput & { after?: StatementDayPlace; limit: number },
): Promise<Result<DailyStatement>> {
  const range = readRange(app, input, startOfMonth)
  if (!range.ok) return range
  const { from, to } = range.value
  const { after, limit } = input
  return readSnapshot(app.database, async (db) => {
    const rows = await listStatementDays(db, actor.accountId, range.value, {
      limit,
      ...(after === undefined ? {} : { after }),
    })
    const opening = await readBalanceBefore(db, actor.accountId, from)
    const first = after === undefined ? opening : await readBalanceBefore(db, actor.accountId, from, after)
    const next = parseInstant(to)
    if (next === undefined) throw new Error(`${to} is not a day`)
    const closing = await readBalanceBefore(db, actor.accountId, formatDay(addMs(next, DAY_MS)))
    return ok({ from, to, opening, closing, lines: withBalances(rows, first) })
  })
}

function withBalances(rows: readonly StatementDayRow[], first: NanoUsd): DailyLine[] {
  let balance = first
  return rows.map((row) => {
    balance = nanoUsdOf(balance + row.amount)
    const { day, kind, service, rental_id, volume_id, model } = row
    return {
      day,
      kind,
      description: describeLine(row),
      service: kind === 'charge' || kind === 'refund' ? service : null,
      rentalId: rental_id === 0 ? null : rental_id,
      volumeId: volume_id === 0 ? null : volume_id,
      model: model === '' ? null : model,
      postings: row.postings,
      amount: row.amount,
      balanceAfter: balance,
      place: { day, kind, service, rental_id, volume_id, model },
    }
  })
}

const paymentNames = {
  purchase: 'Payment',
  credit: 'Credit',
  adjustment: 'Adjustment',
  refund: 'Refund',
  charge: 'Other usage',
  credit_draw: 'Drawn from the credit line',
  credit_repayment: 'Credit line repaid',
  payment_refund: 'Payment refunded',
  dispute: 'Payment disputed',
  dispute_return: 'Dispute won',
  debt_repayment: 'Debt repaid',
} as const satisfies Record<StatementDay['kind'], string>

const rentalNames = {
  'virtual-machine': 'Virtual machine',
  'bare-metal': 'Bare metal',
  container: 'Container',
} as const

function describeLine({ kind, service, rental, volume_id, volume_label, model }: StatementDayRow): string {
  const prefix = kind === 'refund' ? 'Refund: ' : rental !== null && service === 'storage' ? 'Disk of the stopped ' : ''
  if (rental !== null) {
    const label = rental.label === null || rental.label === '' ? '' : ` “${rental.label}”`
    const text = `${rentalNames[rental.kind]} ${rental.name}${label}`
    return prefix.startsWith('Disk') ? `${prefix}${text.charAt(0).toLowerCase()}${text.slice(1)}` : `${prefix}${text}`
  }
  if (volume_id !== 0) return `${prefix}Volume “${volume_label ?? volume_id}”`
  return model === '' ? paymentNames[kind] : `${prefix}Inference, ${model}`
}

/** The longest export. Memory of about 15 MB. */
const MAX_EXPORT_LINES = 100_000

/** The statement by day as CSV, read on one snapshot, between the opening and the closing balance. */
export async function exportStatement(app: App, actor: Actor, input: RangeInput): Promise<Result<DailyStatement>> {
  const statement = await readDailyStatement(app, actor, { ...input, limit: MAX_EXPORT_LINES + 1 })
  if (statement.ok && statement.value.lines.length > MAX_EXPORT_LINES) {
    return fail('statement_too_long', { maxLines: MAX_EXPORT_LINES })
  }
  return statement
}
