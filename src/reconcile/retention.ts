/**
 * Applies retention to the tables that grow with every inference request and every sample of a rental: creates the
 * partitions of the coming days and months, and drops old ones when all of them is past retention. One partition of
 * requests per pass, so that no pass takes long.
 */
import type { App } from '../app/app.ts'
import { SAMPLES_KEPT_MS, SUMMARIES_KEPT_MS } from '../app/rental-metrics.ts'
import { addMs, DAY_MS, MINUTE_MS, type Instant } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import type { Retention } from '../domain/retention.ts'
import { deleteOutcomes } from '../store/offer-outcome.ts'
import { deleteRentalLogs } from '../store/rental-log.ts'
import { keepMetricPartitions } from '../store/rental-sample.ts'
import { dropRequestPartition, deleteRequests, makeRequestPartitions } from '../store/request-log.ts'
import type { Reconciler } from './loop.ts'

/** Old rows that share a partition with newer ones, as after an upgrade, are deleted in batches of this size. */
const BATCH = 1_000
/** What became of orders at offers of other clouds. */
const OUTCOME_DAYS = 7

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
      const kept = { samplesFrom: addMs(now, -SAMPLES_KEPT_MS), summariesFrom: addMs(now, -SUMMARIES_KEPT_MS) }
      await keepMetricPartitions(database, now, kept)
      await deleteOutcomes(database.db, before(OUTCOME_DAYS))
      await deleteRentalLogs(database.db, addMs(now, -limits.lastLogMs))
      return gone.length > 0 || rows === BATCH
    },
  }
}
