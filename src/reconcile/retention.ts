/**
 * Keeps the tables that grow with every model call within their retention: makes the partitions of the coming days and
 * months, and drops the oldest one when all of it is old enough. One partition per pass, so that no pass takes long.
 */
import type { App } from '../app/app.ts'
import { addMs, DAY_MS, MINUTE_MS, type Instant } from '../base/instant.ts'
import type { Retention } from '../domain/retention.ts'
import { dropRequestPartition, forgetRequests, makeRequestPartitions } from '../store/request-log.ts'
import type { Reconciler } from './loop.ts'

/** Rows that stand among newer ones in their partition, as after an upgrade. */
const BATCH = 1_000

export function keepRetention(app: App, retention: Retention, dropped: (partition: string) => void): Reconciler {
  return {
    name: 'retention',
    everyMs: 10 * MINUTE_MS,
    run: async () => {
      const { database, clock } = app
      const now = clock.now()
      await makeRequestPartitions(database, now)
      const before = (days: number): Instant => addMs(now, -days * DAY_MS)
      const gone = [
        await dropRequestPartition(database, 'request_log', before(retention.requestLogDays)),
        await dropRequestPartition(database, 'request_cost', before(retention.requestCostDays)),
      ].filter((name) => name !== null)
      for (const name of gone) dropped(name)
      const rows = await forgetRequests(database.db, before(retention.requestLogDays), BATCH)
      return gone.length > 0 || rows === BATCH
    },
  }
}
