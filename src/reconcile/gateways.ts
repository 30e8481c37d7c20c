/** Forgets what is old of inference: texts after a week, gateways that are gone for good. */
import { addMs, DAY_MS, MINUTE_MS } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { transact } from '../store/database.ts'
import { forgetGateways } from '../store/purse.ts'
import { forgetRequestBodies } from '../store/request-log.ts'
import type { Reconciler } from './loop.ts'

const BODIES_KEPT_MS = 7 * DAY_MS
/** A gateway may come back with a journal to replay; after this long its row is no longer kept for it. */
const GATEWAY_KEPT_MS = 7 * DAY_MS
const BATCH = 1_000

export function tendGateways(app: App): Reconciler {
  return {
    name: 'gateways',
    everyMs: MINUTE_MS,
    run: async () => {
      const now = app.clock.now()
      const { db } = app.database
      const forgotten = [
        await forgetRequestBodies(db, addMs(now, -BODIES_KEPT_MS), BATCH),
        await transact(app.database, (tx) => forgetGateways(tx, addMs(now, -GATEWAY_KEPT_MS), BATCH)),
      ]
      return forgotten.some((rows) => rows === BATCH)
    },
  }
}
