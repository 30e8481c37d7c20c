/**
 * Creates the machines of Pending rentals. The create call is noted in the database before it is made, so after a crash
 * or timeout the outcome is known to be unknown, and the next pass looks for the tag instead of calling again. Only when
 * the provider, past its list lag, lists nothing under the tag is the call repeated.
 */
import { addMs, toDate, type Instant } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { placeElsewhere } from '../app/order/place.ts'
import { failRental, rentalTag } from '../app/rental/rental.ts'
import type { RentalSpec } from '../domain/rental.ts'
import { hadNoRoom, type CreateOutcome, type Driver } from '../drivers/driver.ts'
import { transact } from '../store/platform/database.ts'
import { releaseLease } from '../store/platform/lease.ts'
import { recordOutcome } from '../store/machine/offer-outcome.ts'
import { hasToCreate, leaseToCreate, recordCreateCall, saveCreateAnswer } from '../store/rental/rental-engine.ts'
import type { Rental } from '../store/rental/rental.ts'
import { listAttachments, readVolumes } from '../store/volume/volume.ts'
import { attempt, noteFailure, rentalTask, type Progress } from './attempt.ts'
import { driverIds, longestCallMs } from './drivers.ts'
import { backOffMs, callSignal, eachOf, throwAll, type Reconciler } from './loop.ts'

const BATCH = 128
/** The maximum of creates in progress at a driver that does not set its own. */
const WIDTH = 16
/** A lease lasts this much longer than the timeout of the call. */
const LEASE_SLACK_MS = 5_000
/** An order whose provider could not be called is tried again after this time. */
const POSTPONED_MS = 3_000

export function provision(app: App): Reconciler {
  return {
    name: 'provision',
    due: hasToCreate,
    run: async (signal) => {
      const leased = await leaseToCreate(app.database.db, driverIds(app), {
        now: app.clock.now(),
        leaseMs: longestCallMs(app) + LEASE_SLACK_MS,
        limit: BATCH,
      })
      const results = await Promise.allSettled(
        [...new Set(leased.rows.map(({ driver }) => driver))].map((id) =>
          eachOf(
            leased.rows.filter(({ driver }) => driver === id),
            app.drivers.get(id)?.createsAtOnce ?? WIDTH,
            (rental) => provisionOne(app, rental, leased.token, signal),
          ),
        ),
      )
      throwAll(results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : [])))
      return leased.rows.length === BATCH
    },
  }
}

async function provisionOne(app: App, rental: Rental, token: string, signal: AbortSignal): Promise<void> {
  const driver = app.drivers.get(rental.driver)
  if (driver === undefined) return postpone(app, rental, token)
  // One timeout for the list and create calls together, so that both end before the lease.
  const call = callSignal(signal, driver.callTimeoutMs)
  const outcome = await attempt(app, rentalTask('provision', rental), signal, () =>
    create(app, driver, rental, token, call),
  )
  // The outcome is unknown; the next pass looks for the tag.
  if (outcome === 'failed') await postpone(app, rental, token)
}

async function create(app: App, driver: Driver, rental: Rental, token: string, signal: AbortSignal): Promise<Progress> {
  if (rental.create_asked_at !== null) {
    const externalId = await findByTag(app, driver, rental, signal)
    if (externalId !== undefined) {
      await saveOutcome(app, rental, token, { kind: 'created', externalId })
      return 'done'
    }
    const visibleAt = addMs(rental.create_asked_at, driver.callTimeoutMs + driver.listLagMs)
    if (app.clock.now() < visibleAt) {
      await postpone(app, rental, token, visibleAt)
      return 'waiting'
    }
  }
  if (!(await recordCreateCall(app.database.db, rental.id, token, app.clock.now()))) {
    await releaseEnded(app, rental, token)
    return 'waiting'
  }
  const spec = await withDisks(app, driver, rental)
  const outcome = await driver.create(rentalTag(app, rental), spec, signal)
  if (outcome.kind === 'postponed') {
    const dueAt = addMs(app.clock.now(), POSTPONED_MS)
    await releaseLease(app.database.db, 'rental', rental, token, { due_at: toDate(dueAt), create_asked_at: null })
    return 'waiting'
  }
  await saveOutcome(app, rental, token, outcome)
  if (outcome.kind === 'created' || outcome.detail === undefined) return 'done'
  // The customer gets a sentence of ours; operators also see the provider's message.
  await noteFailure(app, rentalTask('provision', rental), new Error(outcome.detail))
  return 'waiting'
}

/** Adds the order's volumes, if the machine has them from the start. The machine never starts without them. */
async function withDisks(app: App, driver: Driver, rental: Rental): Promise<RentalSpec> {
  const { db } = app.database
  const { spec } = rental
  const ordered = new Set(spec.workload?.volumes.map(({ volumeId }) => volumeId))
  if (ordered.size === 0 || driver.volumes?.isLocal !== true) return spec
  const attachments = await listAttachments(db, { rentalIds: [rental.id] })
  const mounts = attachments.filter((one) => ordered.has(one.volumeId) && one.state !== 'detaching')
  const volumes = await readVolumes(
    db,
    mounts.map(({ volumeId }) => volumeId),
  )
  const disks = mounts.map(({ volumeId, path, readOnly }) => {
    const volume = volumes.get(volumeId)
    if (volume?.state !== 'active' || volume.external_id === null)
      throw new Error(`Volume ${volumeId} is ${volume?.state ?? 'missing'}.`)
    return { volumeId: volume.external_id, path, readOnly }
  })
  return { ...spec, disks }
}

async function findByTag(app: App, driver: Driver, rental: Rental, signal: AbortSignal): Promise<string | undefined> {
  const tag = rentalTag(app, rental)
  const machines = await driver.list(tag, signal)
  return machines
    .filter((machine) => machine.tag === tag && !hadNoRoom(machine))
    .map((machine) => machine.externalId)
    .sort()[0]
}

/** The rental was ended before the provider was called. Once the lease is released, `observe` ends it. */
async function releaseEnded(app: App, rental: Rental, token: string): Promise<void> {
  await postpone(app, rental, token, app.clock.now())
  app.database.onCommit(new Set(['observe']))
}

type Answered = Exclude<CreateOutcome, { kind: 'postponed' }>

async function saveOutcome(app: App, rental: Rental, token: string, outcome: Answered): Promise<void> {
  await transact(app.database, async (tx) => {
    const isCreated = outcome.kind === 'created'
    const locked = await saveCreateAnswer(tx, rental, token, isCreated ? outcome.externalId : null)
    if (locked === undefined) return
    if (isCreated) await recordOutcome(tx, rental, { kind: 'made' })
    if (isCreated) tx.wake.add(locked.status === 'Pending' ? 'observe' : 'terminate')
    else if (locked.status !== 'Pending') tx.wake.add('observe')
    else if (outcome.reason !== 'no_capacity' || !(await placeElsewhere(app, tx, locked)))
      await failRental(tx, locked, outcome.reason, outcome.message)
  })
}

async function postpone(app: App, rental: Rental, token: string, until?: Instant): Promise<void> {
  const dueAt = until ?? addMs(app.clock.now(), backOffMs(rental.attempts))
  await releaseLease(app.database.db, 'rental', rental, token, { due_at: toDate(dueAt) })
}
