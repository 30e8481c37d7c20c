/**
 * Counts what replicas did, by the hour, from the request log. A pass counts whole hours again, so a request that is
 * recorded late is counted too, and a repeated pass changes nothing.
 */
import type { App } from '../app/app.ts'
import { addMs, MINUTE_MS, SECOND_MS } from '../base/instant.ts'
import { countReplicaHour, hasRecentReplicas, hoursToCount } from '../store/serving/economics.ts'
import { endTurn, takeTurn } from '../store/platform/lease.ts'
import type { Reconciler } from './loop.ts'

const EVERY_MS = 10 * SECOND_MS
const LEASE_MS = 5 * MINUTE_MS
/**
 * A pass reads up to an hour of the log, so a busy installation counts less often: it spends at most a twentieth of the
 * time.
 */
const PAUSE_FACTOR = 20

export function countServingUsage(app: App): Reconciler {
  let dueAt = app.clock.now()
  return {
    name: 'serving-usage',
    everyMs: EVERY_MS,
    run: async () => {
      const { db } = app.database
      const now = app.clock.now()
      if (now < dueAt || !(await hasRecentReplicas(db, now))) return false
      const token = await takeTurn(db, 'serving-usage', { now, leaseMs: LEASE_MS })
      if (token === undefined) return false
      const started = performance.now()
      try {
        for (const hour of hoursToCount(now)) await countReplicaHour(db, hour)
      } finally {
        await endTurn(db, 'serving-usage', token, now)
      }
      dueAt = addMs(now, Math.round((performance.now() - started) * PAUSE_FACTOR))
      return false
    },
  }
}
