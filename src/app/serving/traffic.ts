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

/** `minutes`: including the current one. */
export async function readTraffic(app: App, minutes: number): Promise<TrafficReport> {
  const to = app.clock.now()
  const running = instantOf(Math.floor(to / MINUTE_MS) * MINUTE_MS)
  const from = addMs(running, -(minutes - 1) * MINUTE_MS)
  const span = { from, until: addMs(running, MINUTE_MS) }
  // On one snapshot, so that models and minutes have the same total.
  const { busy, models } = await readSnapshot(app.database, async (db) => ({
    busy: await sumTrafficByMinute(db, span),
    models: await sumTrafficByModel(db, span, limits.models),
  }))
  const byMinute = new Map(busy.map((one) => [one.minute, one]))
  const every = Array.from({ length: minutes }, (_, n) => addMs(from, n * MINUTE_MS))
  return { from, to, minutes: every.map((minute) => byMinute.get(minute) ?? { ...quiet, minute }), models }
}

const quiet = { requests: 0, failed: 0, inputTokens: 0n, outputTokens: 0n, cost: zeroUsd }
