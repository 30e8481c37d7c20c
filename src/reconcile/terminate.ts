/** Asks engines to let go of what has ended or failed. Whether it is gone is for `observe` to see. */
import { addMs, toDate } from '../base/instant.ts'
import { sql } from 'kysely'
import type { App } from '../app/app.ts'
import { claimDue } from '../store/lease.ts'
import type { Rental } from '../store/rental.ts'
import { attempt, rentalConcern } from './attempt.ts'
import { longestCallMs, ofOurDrivers } from './drivers.ts'
import { backOffMs, callSignal, eachOf, type Reconciler } from './loop.ts'

const BATCH = 64
const WIDTH = 16
const LEASE_SLACK_MS = 5_000
/** How long an asked engine is given before it is asked again. */
const ASK_AGAIN_MS = 10_000

export function terminate(app: App): Reconciler {
  return {
    name: 'terminate',
    everyMs: 1_000,
    run: async (signal) => {
      const claim = await claimDue<Rental>(
        app.database.db,
        'rental',
        sql`t.status in ('Terminating', 'Failed') and t.released_at is null and t.external_id is not null and ${ofOurDrivers(app)}`,
        { now: app.clock.now(), leaseMs: longestCallMs(app) + LEASE_SLACK_MS, limit: BATCH },
      )
      let asked = 0
      await eachOf(claim.rows, WIDTH, async (rental) => {
        if (await terminateOne(app, rental, claim.token, signal)) asked += 1
      })
      if (asked > 0) app.database.onCommit(new Set(['observe']))
      return claim.rows.length === BATCH
    },
  }
}

async function terminateOne(app: App, rental: Rental, token: string, signal: AbortSignal): Promise<boolean> {
  const driver = app.drivers.get(rental.driver)
  // Refused or unknown: the row stays as it is and the engine is asked again.
  const outcome = await attempt(app, rentalConcern('terminate', rental), signal, async () => {
    if (driver === undefined || rental.external_id === null) return 'waiting'
    await driver.destroy(rental.external_id, callSignal(signal, driver.callTimeoutMs))
    return 'done'
  })
  const asked = outcome === 'done'
  const now = app.clock.now()
  await app.database.db
    .updateTable('rental')
    .set({
      due_at: toDate(addMs(now, asked ? ASK_AGAIN_MS : backOffMs(rental.attempts))),
      lease_token: null,
      lease_until: null,
      // The first asking counts: how long it has been left out since is what shows it gone.
      ...(asked && rental.destroy_asked_at === null ? { destroy_asked_at: toDate(now) } : {}),
    })
    .where('id', '=', rental.id)
    .where('lease_token', '=', token)
    .execute()
  return asked
}
