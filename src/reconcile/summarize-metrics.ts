/**
 * Summarizes the samples of each hour that is over: average and maximum of every five minutes, kept for thirty days
 * where samples are kept for one. Doing an hour twice gives the same summaries, so a killed server does no harm.
 */
import type { App } from '../app/app.ts'
import { RECORD_LAG_MS } from '../app/rental/metric-recorder.ts'
import { SAMPLES_KEPT_MS } from '../app/rental/rental-metrics.ts'
import { MINUTE_MS, type Instant } from '../base/instant.ts'
import { endTurn, takeTurn } from '../store/platform/lease.ts'
import { findDueHour, finishHour, summarizeSome } from '../store/rental/rental-sample.ts'
import type { Reconciler } from './loop.ts'

const LEASE_MS = 5 * MINUTE_MS
/** Rows read at a time: about 80 rentals. */
const BATCH = 5_000

export function summarizeMetrics(app: App): Reconciler {
  return {
    name: 'summarize-metrics',
    everyMs: MINUTE_MS,
    run: async (signal) => {
      const { database, clock } = app
      const hour = await findDueHour(database.db, clock.now(), { keptMs: SAMPLES_KEPT_MS, settleMs: RECORD_LAG_MS })
      if (hour === undefined) return false
      const token = await takeTurn(database.db, 'summarize-metrics', { now: clock.now(), leaseMs: LEASE_MS })
      if (token === undefined) return false
      const isDone = await summarizeHour(app, hour, signal)
      await endTurn(database.db, 'summarize-metrics', token, clock.now())
      return isDone
    },
  }
}

/** False: the server is stopping. */
async function summarizeHour(app: App, hour: Instant, signal: AbortSignal): Promise<boolean> {
  for (let after = 0; ;) {
    if (signal.aborted) return false
    const last = await summarizeSome(app.database, hour, after, BATCH)
    if (last === undefined) break
    after = last
  }
  await finishHour(app.database.db, hour)
  return true
}
