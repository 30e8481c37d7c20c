/** Deletes old inference data: stored request bodies after a week, and gateways that never came back. */
import { addMs, DAY_MS, MINUTE_MS } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { transact } from '../store/platform/database.ts'
import { deleteGateways } from '../store/request/purse.ts'
import { deleteRequestBodies } from '../store/request/request-log.ts'
import type { Reconciler } from './loop.ts'

const BODIES_KEPT_MS = 7 * DAY_MS
/** A gateway may come back with a journal to replay, so its row is kept for this long. */
const GATEWAY_KEPT_MS = 7 * DAY_MS
const BATCH = 1_000

export function cleanUpGateways(app: App): Reconciler {
  return {
    name: 'gateways',
    everyMs: MINUTE_MS,
    run: async () => {
      const now = app.clock.now()
      const { db } = app.database
      const deleted = [
        await deleteRequestBodies(db, addMs(now, -BODIES_KEPT_MS), BATCH),
        await transact(app.database, (tx) => deleteGateways(tx, addMs(now, -GATEWAY_KEPT_MS), BATCH)),
      ]
      return deleted.some((rows) => rows === BATCH)
    },
  }
}
