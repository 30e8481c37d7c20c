/** Tells operators when a provider has not listed its machines for a while, once until it is back. */
import { formatInstant, MINUTE_MS, SECOND_MS } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { transact } from '../store/platform/database.ts'
import { readDoneAt } from '../store/platform/lease.ts'
import {
  closeOperatorAlert,
  listOperatorAlerts,
  notifyOperators,
  openOperatorAlert,
} from '../store/notice/notification.ts'
import type { Reconciler } from './loop.ts'

/** Longer than a restart of a provider or a deployment of this server. */
const DOWN_MS = 5 * MINUTE_MS

export function watchDrivers(app: App): Reconciler {
  return {
    name: 'watch-engines',
    everyMs: 30 * SECOND_MS,
    run: async () => {
      const open = new Set(await listOperatorAlerts(app.database.db, 'operator_engine'))
      for (const driver of app.drivers.keys()) {
        const shownAt = await readDoneAt(app.database.db, `observe:${driver}`)
        // A provider that was never listed is new: its first list decides.
        const isDown = shownAt !== null && app.clock.now() - shownAt > DOWN_MS
        if (!isDown && open.has(driver)) await closeOperatorAlert(app.database.db, driver)
        if (!isDown || open.has(driver)) continue
        await transact(app.database, async (tx) => {
          if (!(await openOperatorAlert(tx, driver, 'operator_engine'))) return
          await notifyOperators(tx, {
            kind: 'operator_engine',
            subject: { kind: 'engine', id: driver },
            data: { since: formatInstant(shownAt) },
          })
        })
      }
      return false
    },
  }
}
