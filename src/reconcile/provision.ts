/**
 * Makes Pending rentals true. Before an engine is asked, the asking is written down; so after a crash or a time-out we
 * know that the outcome is unknown, and look for the tag instead of asking again. Only when the engine, past its list
 * lag, shows nothing under the tag, is the first asking void and the engine asked anew.
 */
import { addMs, toDate, type Instant } from '../base/instant.ts'
import { sql } from 'kysely'
import type { App } from '../app/app.ts'
import { failRental, rentalTag } from '../app/rental.ts'
import type { CreateOutcome, Driver } from '../engines/driver.ts'
import { transact } from '../store/database.ts'
import { claimDue } from '../store/lease.ts'
import { lockRental, type Rental } from '../store/rental.ts'
import { attempt, rentalConcern, type Progress } from './attempt.ts'
import { longestCallMs, ofOurDrivers } from './drivers.ts'
import { backOffMs, callSignal, eachOf, type Reconciler } from './loop.ts'

const BATCH = 64
const WIDTH = 16
/** A claim outlives its holder by the call's own limit and this much. */
const LEASE_SLACK_MS = 5_000

export function provision(app: App): Reconciler {
  return {
    name: 'provision',
    everyMs: 1_000,
    run: async (signal) => {
      const claim = await claimDue<Rental>(
        app.database.db,
        'rental',
        sql`t.status = 'Pending' and t.external_id is null and t.released_at is null and ${ofOurDrivers(app)}`,
        { now: app.clock.now(), leaseMs: longestCallMs(app) + LEASE_SLACK_MS, limit: BATCH },
      )
      await eachOf(claim.rows, WIDTH, (rental) => provisionOne(app, rental, claim.token, signal))
      return claim.rows.length === BATCH
    },
  }
}

async function provisionOne(app: App, rental: Rental, token: string, signal: AbortSignal): Promise<void> {
  const driver = app.drivers.get(rental.driver)
  if (driver === undefined) return postpone(app, rental, token)
  // One limit over the look and the asking together, so that both end before the claim does.
  const call = callSignal(signal, driver.callTimeoutMs)
  const outcome = await attempt(app, rentalConcern('provision', rental), signal, () =>
    askFor(app, driver, rental, token, call),
  )
  // The outcome is unknown; the next pass looks for the tag.
  if (outcome === 'failed') await postpone(app, rental, token)
}

async function askFor(app: App, driver: Driver, rental: Rental, token: string, signal: AbortSignal): Promise<Progress> {
  if (rental.create_asked_at !== null) {
    const known = await findByTag(app, driver, rental, signal)
    if (known !== undefined) {
      await settle(app, rental, token, { kind: 'created', externalId: known })
      return 'done'
    }
    const visibleAt = addMs(rental.create_asked_at, driver.callTimeoutMs + driver.listLagMs)
    if (app.clock.now() < visibleAt) {
      await postpone(app, rental, token, visibleAt)
      return 'waiting'
    }
  }
  if (!(await writeAsking(app, rental, token))) {
    await letGo(app, rental, token)
    return 'waiting'
  }
  await settle(app, rental, token, await driver.create(rentalTag(app, rental), rental.spec, signal))
  return 'done'
}

async function findByTag(app: App, driver: Driver, rental: Rental, signal: AbortSignal): Promise<string | undefined> {
  const tag = rentalTag(app, rental)
  const shown = await driver.list(tag, signal)
  return shown
    .filter((machine) => machine.tag === tag)
    .map((machine) => machine.externalId)
    .sort()[0]
}

/** It was ended before anyone was asked: without the claim `observe` sees that nothing is left to wait for. */
async function letGo(app: App, rental: Rental, token: string): Promise<void> {
  await postpone(app, rental, token, app.clock.now())
  app.database.onCommit(new Set(['observe']))
}

/** False when the rental was ended or the claim was lost meanwhile: then nothing may be asked. */
async function writeAsking(app: App, rental: Rental, token: string): Promise<boolean> {
  const row = await app.database.db
    .updateTable('rental')
    .set({ create_asked_at: toDate(app.clock.now()) })
    .where('id', '=', rental.id)
    .where('lease_token', '=', token)
    .where('status', '=', 'Pending')
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

async function settle(app: App, rental: Rental, token: string, outcome: CreateOutcome): Promise<void> {
  await transact(app.database, async (tx) => {
    const locked = await lockRental(tx, rental.id)
    if (locked === undefined || locked.lease_token !== token) return
    const free = { lease_token: null, lease_until: null, due_at: toDate(tx.clock.now()), attempts: 0 }
    if (outcome.kind === 'created') {
      await tx.db
        .updateTable('rental')
        .set({ ...free, external_id: outcome.externalId })
        .where('id', '=', rental.id)
        .execute()
      tx.wake.add(locked.status === 'Pending' ? 'observe' : 'terminate')
      return
    }
    // The engine has said no and made nothing, so there is nothing to wait for.
    await tx.db
      .updateTable('rental')
      .set({ ...free, create_asked_at: null })
      .where('id', '=', rental.id)
      .execute()
    const fresh = await lockRental(tx, rental.id)
    if (fresh === undefined) return
    if (fresh.status === 'Pending') await failRental(tx, fresh, outcome.reason, outcome.message)
    else tx.wake.add('observe')
  })
}

async function postpone(app: App, rental: Rental, token: string, until?: Instant): Promise<void> {
  const dueAt = until ?? addMs(app.clock.now(), backOffMs(rental.attempts))
  await app.database.db
    .updateTable('rental')
    .set({ due_at: toDate(dueAt), lease_token: null, lease_until: null })
    .where('id', '=', rental.id)
    .where('lease_token', '=', token)
    .execute()
}
