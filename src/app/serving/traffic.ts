/** Inference traffic of the last minutes across all accounts: per minute and per model. */
import { addMs, instantOf, MINUTE_MS, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { zeroUsd } from '../../base/money.ts'
import { readSnapshot } from '../../store/ledger/billing.ts'
import {
  sumTrafficByMinute,
  sumTrafficByModel,
  type TrafficMinute,
  type TrafficModel,
} from '../../store/request/traffic.ts'
import type { App } from '../app.ts'

export interface TrafficReport {
  readonly from: Instant
  readonly to: Instant
  /** Every minute, oldest first. */
  readonly minutes: readonly TrafficMinute[]
  readonly models: readonly TrafficModel[]
}

/** Reads the last `minutes` minutes, including the current one. */
export async function readTraffic(app: App, minutes: number): Promise<TrafficReport> {
  const to = app.clock.now()
  const currentMinute = instantOf(Math.floor(to / MINUTE_MS) * MINUTE_MS)
  const from = addMs(currentMinute, -(minutes - 1) * MINUTE_MS)
  const span = { from, until: addMs(currentMinute, MINUTE_MS) }
  // On one snapshot, so that models and minutes have the same total.
  const { busyMinutes, models } = await readSnapshot(app.database, async (db) => ({
    busyMinutes: await sumTrafficByMinute(db, span),
    models: await sumTrafficByModel(db, span, limits.models),
  }))
  const byMinute = new Map(busyMinutes.map((one) => [one.minute, one]))
  const allMinutes = Array.from({ length: minutes }, (_, n) => addMs(from, n * MINUTE_MS))
  return { from, to, minutes: allMinutes.map((minute) => byMinute.get(minute) ?? { ...noTraffic, minute }), models }
}

const noTraffic = { requests: 0, failed: 0, inputTokens: 0n, outputTokens: 0n, cost: zeroUsd }
