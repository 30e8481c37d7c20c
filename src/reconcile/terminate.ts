/** Tells providers to destroy the machines of ended and failed rentals. `observe` finds out when they are gone. */
import { addMs, toDate } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { releaseLease } from '../store/platform/lease.ts'
import { hasToDestroy, leaseToDestroy } from '../store/rental/rental-engine.ts'
import type { Rental } from '../store/rental/rental.ts'
import { attempt, rentalTask } from './attempt.ts'
import { driverIds, longestCallMs } from './drivers.ts'
import { backOffMs, callSignal, eachOf, type Reconciler } from './loop.ts'

const BATCH = 64
const WIDTH = 16
const LEASE_SLACK_MS = 5_000
/** A destroy call has this long to take effect before it is repeated; the time doubles with each attempt. */
const RETRY_MS = 10_000

export function terminate(app: App): Reconciler {
  return {
    name: 'terminate',
    due: hasToDestroy,
    run: async (signal) => {
      const leased = await leaseToDestroy(app.database.db, driverIds(app), {
        now: app.clock.now(),
        leaseMs: longestCallMs(app) + LEASE_SLACK_MS,
        limit: BATCH,
      })
      let calls = 0
      await eachOf(leased.rows, WIDTH, async (rental) => {
        if (await terminateOne(app, rental, leased.token, signal)) calls += 1
      })
      if (calls > 0) app.database.onCommit(new Set(['observe']))
      return leased.rows.length === BATCH
    },
  }
}

async function terminateOne(app: App, rental: Rental, token: string, signal: AbortSignal): Promise<boolean> {
  const driver = app.drivers.get(rental.driver)
  // After an error the row stays as it is, and the call is repeated.
  const outcome = await attempt(app, rentalTask('terminate', rental), signal, async () => {
    if (driver === undefined || rental.external_id === null) return 'waiting'
    await driver.destroy(rental.external_id, callSignal(signal, driver.callTimeoutMs))
    return 'done'
  })
  const isCalled = outcome === 'done'
  const now = app.clock.now()
  await releaseLease(app.database.db, 'rental', rental, token, {
    due_at: toDate(addMs(now, isCalled ? Math.max(RETRY_MS, backOffMs(rental.attempts)) : backOffMs(rental.attempts))),
    // The time of the first call is kept: `observe` counts the machine as gone once it has been missing long enough
    // after it.
    ...(isCalled && rental.destroy_asked_at === null ? { destroy_asked_at: toDate(now) } : {}),
  })
  return isCalled
}
