/** Earnings and utilization of a supplier's machines: in total, per day and per machine. */
import { addMs, DAY_MS, formatDay, HOUR_MS, later, startOfDay, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { nanoUsdOf, sumUsd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { findAccount } from '../../store/account/account.ts'
import { readSnapshot } from '../../store/ledger/billing.ts'
import {
  listEarnings,
  listEarningsByDay,
  listEarningsWithin,
  listSoldByDay,
  listSoldByMachine,
  type MachineEarning,
} from '../../store/ledger/earning.ts'
import { readBalances } from '../../store/ledger/ledger.ts'
import { listFleet, type Machine } from '../../store/machine/machine.ts'
import { sumPayouts } from '../../store/ledger/payout.ts'
import type { Actor, App } from '../app.ts'

export interface Earnings {
  readonly unpaid: NanoUsd
  readonly paidOut: NanoUsd
  readonly feeBp: number
  /** The all-time earnings of each machine. */
  readonly machines: readonly MachineEarning[]
  /** First and last day, as `2026-11-14`. */
  readonly from: string
  readonly to: string
  /** The amount in this period, as for all fields below. */
  readonly earned: NanoUsd
  readonly byDay: readonly DayEarning[]
  readonly byMachine: readonly MachineSale[]
}

interface DayEarning {
  readonly day: string
  readonly earned: NanoUsd
  readonly gpuHoursSold: number
}

interface MachineSale extends MachineEarning {
  readonly gpuHoursSold: number
  /**
   * The hours since the machine joined, on sale or not: listing times are not stored. null: it belongs to someone else
   * now.
   */
  readonly gpuHours: number | null
}

/** `days`: including today. */
export async function readEarnings(app: App, { accountId }: Actor, days: number): Promise<Earnings> {
  const now = app.clock.now()
  const today = startOfDay(now)
  const from = addMs(today, -(days - 1) * DAY_MS)
  const span = { from, until: addMs(today, DAY_MS) }
  // Both reads use one snapshot: a charge between them would be in only one of the sums.
  const read = await readSnapshot(app.database, async (db) => ({
    balances: await readBalances(db, accountId),
    paidOut: await sumPayouts(db, accountId),
    account: await findAccount(db, accountId),
    machines: await listEarnings(db, accountId),
    earnedByDay: await listEarningsByDay(db, accountId, span),
    soldByDay: await listSoldByDay(db, accountId, span),
    earnedByMachine: await listEarningsWithin(db, accountId, span),
    soldByMachine: await listSoldByMachine(db, accountId, span),
    fleet: await listFleet(db, { supplierId: accountId, limit: limits.plainListRows }),
  }))
  const earnedOn = new Map(read.earnedByDay.map((row) => [row.day, row.earned]))
  const soldOn = new Map(read.soldByDay.map((row) => [row.day, row.gpuMs]))
  const earnedBy = new Map(read.earnedByMachine.map((row) => [row.machineId, row.earned]))
  const soldBy = new Map(read.soldByMachine.map((row) => [row.machineId, row.gpuMs]))
  const fleet = new Map(read.fleet.map((machine) => [machine.id, machine]))
  const ids = [...new Set([...fleet.keys(), ...earnedBy.keys(), ...soldBy.keys()])].sort()
  return {
    unpaid: read.balances.earnings,
    paidOut: nanoUsdOf(read.paidOut),
    feeBp: read.account?.platform_fee_bp ?? 0,
    machines: read.machines,
    from: formatDay(from),
    to: formatDay(today),
    earned: sumUsd(earnedOn.values()),
    byDay: Array.from({ length: days }, (_, n) => formatDay(addMs(from, n * DAY_MS))).map((day) => ({
      day,
      earned: earnedOn.get(day) ?? zeroUsd,
      gpuHoursSold: gpuHours(soldOn.get(day)),
    })),
    byMachine: ids.slice(0, limits.plainListRows).map((machineId) => ({
      machineId,
      earned: earnedBy.get(machineId) ?? zeroUsd,
      gpuHoursSold: gpuHours(soldBy.get(machineId)),
      gpuHours: gpuHoursHere(fleet.get(machineId), from, now),
    })),
  }
}

function gpuHoursHere(machine: Machine | undefined, from: Instant, now: Instant): number | null {
  if (machine === undefined) return null
  return gpuHours(BigInt(machine.gpus_total * (now - later(from, machine.created_at))))
}

/** Rounds to a millionth, since this is not money. */
function gpuHours(gpuMs = 0n): number {
  return Math.round((Number(gpuMs) / HOUR_MS) * 1e6) / 1e6
}
