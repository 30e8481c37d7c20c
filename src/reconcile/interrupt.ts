/**
 * Carries out interruptions: has the host notify the programs of a rental, ends the rental at the announced time, and
 * starts the order that was promised its GPUs once it has them.
 */
import type { App } from '../app/app.ts'
import { interruptNow, receiveGpus } from '../app/rental/interruption-end.ts'
import { transact } from '../store/platform/database.ts'
import {
  hasInterruption,
  listHandedOver,
  listToInterrupt,
  listUntold,
  saveTold,
  type Announcement,
} from '../store/rental/interruption.ts'
import { driverIds } from './drivers.ts'
import { callSignal, eachOf, throwAll, type Reconciler } from './loop.ts'

const BATCH = 64
const WIDTH = 8

export function interrupt(app: App): Reconciler {
  return {
    name: 'interrupt',
    due: hasInterruption,
    run: async (signal) => {
      const { db } = app.database
      const drivers = driverIds(app)
      const ending = await listToInterrupt(db, { now: app.clock.now(), drivers, limit: BATCH })
      const untold = await listUntold(db, drivers, BATCH)
      const handedOver = await listHandedOver(db, BATCH)
      // An unreachable host must not delay the other ends and starts.
      const results = await Promise.allSettled([
        eachOf(ending, WIDTH, (id) => transact(app.database, (tx) => interruptNow(app, tx, id))),
        eachOf(handedOver, WIDTH, (id) => transact(app.database, (tx) => receiveGpus(tx, id))),
        eachOf(untold, WIDTH, (one) => tell(app, one, signal)),
      ])
      throwAll(results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : [])))
      return [ending, untold, handedOver].some((batch) => batch.length === BATCH)
    },
  }
}

/** Notifies the host. It is repeated until it succeeds: a second notice of the same time changes nothing. */
async function tell(
  app: App,
  { id, driver: driverId, externalId, endsAt }: Announcement,
  signal: AbortSignal,
): Promise<void> {
  const driver = app.drivers.get(driverId)
  if (driver === undefined) return
  await driver.power?.announceEnd?.(externalId, endsAt, callSignal(signal, driver.callTimeoutMs))
  await saveTold(app.database.db, id, app.clock.now())
}
