/**
 * Tells providers to stop, start and reboot machines. The state of the rental, committed before, is the intent, and
 * every call is idempotent: after a crash, a timeout or an error the call is repeated, and `observe` finds out what
 * came of it. Rentals that wait for GPUs are started here as soon as their machine has them.
 */
import { addMs } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { beginStart, beginStop, shareOf } from '../app/rental/rental-power.ts'
import { recordRentalEvent } from '../app/rental/rental-event.ts'
import type { PowerDriver } from '../drivers/driver.ts'
import { transact } from '../store/platform/database.ts'
import {
  hasToPower,
  leaseToPower,
  listWaiting,
  releasePowerLease,
  saveRebootsDone,
} from '../store/rental/rental-engine.ts'
import { lockRental, updateRental, type Rental } from '../store/rental/rental.ts'
import { attempt, rentalTask, type Progress } from './attempt.ts'
import { driverIds, longestCallMs } from './drivers.ts'
import { backOffMs, callSignal, eachOf, type Reconciler } from './loop.ts'

const BATCH = 64
const WIDTH = 16
const LEASE_SLACK_MS = 5_000
/** A call has this long to take effect before it is repeated. */
const RETRY_MS = 10_000

export function power(app: App): Reconciler {
  return {
    name: 'power',
    due: hasToPower,
    run: async (signal) => {
      const leased = await leaseToPower(app.database.db, driverIds(app), {
        now: app.clock.now(),
        leaseMs: longestCallMs(app) + LEASE_SLACK_MS,
        limit: BATCH,
      })
      await eachOf(leased.rows, WIDTH, (rental) => powerOne(app, rental, leased.token, signal))
      if (leased.rows.length > 0) app.database.onCommit(new Set(['observe']))
      const waiting = await listWaiting(app.database.db, driverIds(app), BATCH)
      await eachOf(waiting, 1, (id) => startWaiting(app, id))
      return leased.rows.length === BATCH
    },
  }
}

async function powerOne(app: App, rental: Rental, token: string, signal: AbortSignal): Promise<void> {
  const driver = app.drivers.get(rental.driver)
  const outcome = await attempt(app, rentalTask('power', rental), signal, async () => {
    if (driver?.power === undefined || rental.external_id === null) return 'waiting'
    return tell(app, driver.power, rental, rental.external_id, token, callSignal(signal, driver.callTimeoutMs))
  })
  const retryMs = outcome === 'done' ? RETRY_MS : backOffMs(rental.attempts)
  // Does nothing if the lease has already ended, together with the outcome.
  await releasePowerLease(app.database.db, rental, token, addMs(app.clock.now(), retryMs))
}

async function tell(
  app: App,
  driver: PowerDriver,
  rental: Rental,
  externalId: string,
  token: string,
  signal: AbortSignal,
): Promise<Progress> {
  if (rental.status === 'Stopping') {
    await driver.stop(externalId, signal)
    return 'done'
  }
  if (rental.status === 'Running') {
    await driver.reboot(externalId, rental.reboots, signal)
    await transact(app.database, async (tx) => {
      if (await saveRebootsDone(tx, rental, token)) recordRentalEvent(tx, rental, 'rental.rebooted')
    })
    return 'done'
  }
  const outcome = await driver.start(externalId, shareOf(rental), signal)
  if (outcome.kind === 'refused') {
    await transact(app.database, async (tx) => {
      const locked = await lockRental(tx, rental.id)
      if (locked?.status !== 'Starting' || locked.lease_token !== token) return
      await beginStop(app, tx, locked, {
        reason: 'start_refused',
        event: 'rental.start_failed',
        detail: outcome.message,
      })
    })
  }
  return 'done'
}

/** A refusal for lack of money or quota ends the wait; a lack of free GPUs does not. */
async function startWaiting(app: App, id: number): Promise<void> {
  const started = await transact(app.database, async (tx) => {
    const rental = await lockRental(tx, id)
    if (rental?.status !== 'Stopped' || rental.start_requested_at === null) return undefined
    return beginStart(app, tx, rental, 'wait')
  })
  if (started === undefined || started.ok) return
  await transact(app.database, async (tx) => {
    const rental = await lockRental(tx, id)
    if (rental?.status !== 'Stopped' || rental.start_requested_at === null) return
    await updateRental(tx, id, { start_requested_at: null })
    recordRentalEvent(tx, rental, 'rental.start_failed', { reason: started.reason, detail: started.message })
  })
}
