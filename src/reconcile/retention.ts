/**
 * Applies retention to the tables that grow with every inference request and every sample of a rental: creates the
 * partitions of the coming days and weeks, and drops partitions whose rows are all past retention. At most one
 * partition of requests is dropped per pass, so that no pass takes long. It also closes old terms, so that nothing
 * reads them again.
 */
import type { App } from '../app/app.ts'
import { SAMPLES_KEPT_MS, SUMMARIES_KEPT_MS } from '../app/rental/rental-metrics.ts'
import { addMs, DAY_MS, MINUTE_MS } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import type { Retention } from '../domain/retention.ts'
import { deleteOutcomes } from '../store/machine/offer-outcome.ts'
import { closeTerms } from '../store/rental/rental.ts'
import { deleteRentalLogs } from '../store/rental/rental-log.ts'
import { keepMetricPartitions } from '../store/rental/rental-sample.ts'
import { dropRequestPartition, makeRequestPartitions } from '../store/request/request-log.ts'
import type { Reconciler } from './loop.ts'

/** Outcomes of orders at offers of other clouds are kept for this long. */
const OUTCOME_DAYS = 7
/** The maximum of terms closed per pass. */
const TERMS = 1_000

export function applyRetention(app: App, retention: Retention, dropped: (partition: string) => void): Reconciler {
  return {
    name: 'retention',
    everyMs: 10 * MINUTE_MS,
    run: async () => {
      const { database, clock } = app
      const now = clock.now()
      await makeRequestPartitions(database, now)
      const gone = await dropRequestPartition(database, addMs(now, -retention.requestDays * DAY_MS))
      if (gone !== null) dropped(gone)
      const horizons = { samplesFrom: addMs(now, -SAMPLES_KEPT_MS), summariesFrom: addMs(now, -SUMMARIES_KEPT_MS) }
      await keepMetricPartitions(database, now, horizons)
      await deleteOutcomes(database.db, addMs(now, -OUTCOME_DAYS * DAY_MS))
      await deleteRentalLogs(database.db, addMs(now, -limits.lastLogMs))
      const closed = await closeTerms(database.db, now, TERMS)
      return gone !== null || closed === TERMS
    },
  }
}
