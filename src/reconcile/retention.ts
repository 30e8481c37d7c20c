/**
 * Applies retention to the tables that grow with every inference request: creates the partitions of the coming days and
 * months, and drops the oldest one when all of it is past retention. One partition per pass, so that no pass takes long.
 */
import type { App } from '../app/app.ts'
import { addMs, DAY_MS, MINUTE_MS, type Instant } from '../base/instant.ts'
import type { Retention } from '../domain/retention.ts'
import { dropRequestPartition, deleteRequests, makeRequestPartitions } from '../store/request-log.ts'
import type { Reconciler } from './loop.ts'

/** Old rows that share a partition with newer ones, as after an upgrade, are deleted in batches of this size. */
const BATCH = 1_000

export function applyRetention(app: App, retention: Retention, dropped: (partition: string) => void): Reconciler {
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
      const rows = await deleteRequests(database.db, before(retention.requestLogDays), BATCH)
      return gone.length > 0 || rows === BATCH
    },
  }
}
