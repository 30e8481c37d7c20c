/** Creates and grows volumes, resumes them when they are paid for again, and deletes them on request or when unpaid. */
import { addMs, toDate, type Instant } from '../base/instant.ts'
import { costOfSpan } from '../base/money.ts'
import type { App } from '../app/app.ts'
import { deleteVolume, recordVolumeEvent, volumeMemo } from '../app/rental/volume.ts'
import { HOLD_COVERS_MS, SETTLE_EVERY_MS } from '../domain/metering.ts'
import { tagOf } from '../domain/rental.ts'
import { SUSPENDED_KEPT_MS } from '../domain/volume.ts'
import { CopyInProgress, type VolumeDriver, type VolumeOutcome, type VolumeSpec } from '../drivers/driver.ts'
import { transact, type Db, type Tx } from '../store/platform/database.ts'
import { releaseLease } from '../store/platform/lease.ts'
import { placeHold } from '../store/ledger/ledger.ts'
import { lockOrderFacts } from '../store/rental/order.ts'
import { findRental } from '../store/rental/rental.ts'
import { closeMeter, endSegment, holdKey, openSegment } from '../store/ledger/segment.ts'
import {
  deleteAttachments,
  hasDueVolume,
  leaseVolumes,
  listAttachments,
  lockVolume,
  moveVolume,
  readVolumes,
  recordVolumeCreateCall,
  type Volume,
} from '../store/volume/volume.ts'
import { endGrowth } from '../store/volume/volume-growth.ts'
import { attempt, noteFailure, volumeTask, type Progress } from './attempt.ts'
import { driverIds, longestCallMs } from './drivers.ts'
import { backOffMs, callSignal, eachOf, type Reconciler } from './loop.ts'

const BATCH = 32
const WIDTH = 8
const LEASE_SLACK_MS = 5_000
const RESUME_EVERY_MS = 30_000
/** After this many failed attempts the volume fails permanently. */
const MAX_CREATE_ATTEMPTS = 8
/** After this many failed attempts, some minutes later, the volume keeps its size. */
const MAX_GROW_ATTEMPTS = 10
/** The interval at which a copy in progress is checked. */
const COPY_POLL_MS = 2_000

export function reconcileVolumes(app: App): Reconciler {
  return {
    name: 'volumes',
    due: hasDueVolume,
    run: async (signal) => {
      const leased = await leaseVolumes(app.database.db, driverIds(app), {
        now: app.clock.now(),
        leaseMs: longestCallMs(app) + LEASE_SLACK_MS,
        limit: BATCH,
      })
      await eachOf(leased.rows, WIDTH, (volume) => reconcileOne(app, volume, leased.token, signal))
      return leased.rows.length === BATCH
    },
  }
}

async function reconcileOne(app: App, volume: Volume, token: string, signal: AbortSignal): Promise<void> {
  const driver = app.drivers.get(volume.driver)
  const retryAt = addMs(app.clock.now(), backOffMs(volume.attempts))
  if (driver?.volumes === undefined) return postpone(app.database.db, volume, token, retryAt)
  const call = { driver: driver.volumes, signal: callSignal(signal, driver.callTimeoutMs), token }
  const outcome = await attempt(app, volumeTask('volumes', volume), signal, async () => {
    if (volume.state === 'creating') return createOrWait(app, volume, call)
    if (volume.state === 'deleting') return remove(app, volume, call)
    if (volume.state === 'active') return grow(app, volume, call)
    await resumeOrDelete(app, volume, token)
    return 'waiting'
  })
  if (outcome !== 'failed') return
  await transact(app.database, async (tx) => {
    const hasFailedOften = volume.attempts >= MAX_CREATE_ATTEMPTS
    const cannotGrow = volume.state === 'active' && volume.attempts >= MAX_GROW_ATTEMPTS
    if (volume.state === 'creating' && hasFailedOften) await giveUp(tx, volume, 'engine_failure')
    else if (cannotGrow) await giveUpGrowth(tx, volume, token, 'engine_failure')
    else await postpone(tx.db, volume, token, retryAt)
  })
}

async function postpone(db: Db, volume: Volume, token: string, dueAt: Instant): Promise<void> {
  await releaseLease(db, 'volume', volume, token, { due_at: toDate(dueAt) })
}

interface Call {
  readonly driver: VolumeDriver
  readonly signal: AbortSignal
  readonly token: string
}

/** Time spent on a copy does not count as a failed attempt. */
async function createOrWait(app: App, volume: Volume, call: Call): Promise<Progress> {
  try {
    return await create(app, volume, call)
  } catch (error) {
    if (!(error instanceof CopyInProgress)) throw error
    const soon = toDate(addMs(app.clock.now(), COPY_POLL_MS))
    const change = { due_at: soon, attempts: volume.attempts - 1 }
    await releaseLease(app.database.db, 'volume', volume, call.token, change)
    return 'waiting'
  }
}

/** Creates a volume. After a create call with an unknown outcome, the tag is looked up, as for rentals. */
async function create(app: App, volume: Volume, call: Call): Promise<Progress> {
  const outcome = await findOrCreate(app, volume, call)
  if (outcome === undefined) return 'waiting'
  if (outcome.kind === 'refused') {
    await transact(app.database, (tx) => giveUp(tx, volume, outcome.reason))
    await noteFailure(app, volumeTask('volumes', volume), new Error(outcome.message))
    return 'waiting'
  }
  await transact(app.database, async (tx) => {
    const locked = await lockVolume(tx, volume.id)
    if (locked === undefined || locked.lease_token !== call.token) return
    if (locked.state !== 'creating') {
      await releaseLease(tx.db, 'volume', volume, call.token, { external_id: outcome.externalId })
      return
    }
    const now = tx.clock.now()
    await moveVolume(tx, volume.id, 'active', {
      external_id: outcome.externalId,
      vip: outcome.vip,
      started_at: now,
    })
    await startMeter(tx, locked, now)
    recordVolumeEvent(tx, volume, 'volume.active', { vip: outcome.vip })
    tx.wake.add('attachments')
  })
  return 'done'
}

/** undefined: before the provider was called, the volume was ended or the lease was lost. */
async function findOrCreate(app: App, volume: Volume, call: Call): Promise<VolumeOutcome | undefined> {
  const tag = tagOf(app.installationId, 'volume', volume)
  if (volume.create_asked_at !== null) {
    const listedVolume = (await call.driver.list(tag, call.signal)).find((one) => one.tag === tag)
    // A volume that is not ready is requested again: the provider continues, or reports the obstacle.
    if (listedVolume !== undefined && listedVolume.ready !== false) {
      return { kind: 'created', externalId: listedVolume.externalId, vip: listedVolume.vip }
    }
  }
  if (!(await recordVolumeCreateCall(app.database.db, volume.id, call.token, app.clock.now()))) return undefined
  const near = await findMachineNear(app, volume)
  const order = { region: volume.region, label: volume.label, sizeGb: volume.size_gb, ...near }
  return call.driver.create(tag, order, call.signal)
}

/** Finds where the volume must be: near its source, the machine that it was ordered for or is attached to, or anywhere. */
async function findMachineNear(app: App, volume: Volume): Promise<Pick<VolumeSpec, 'near' | 'copyOf'>> {
  if (volume.copy_of !== null) {
    const source = (await readVolumes(app.database.db, [volume.copy_of])).get(volume.copy_of)?.external_id
    if (source === undefined || source === null) throw new Error(`Volume ${volume.copy_of} has no data to copy.`)
    return { near: { volume: source }, copyOf: source }
  }
  if (volume.machine_id !== null) return { near: { host: volume.machine_id } }
  const [attachment] = await listAttachments(app.database.db, { volumeIds: [volume.id] })
  const rental = attachment === undefined ? undefined : await findRental(app.database.db, attachment.rentalId)
  return rental?.external_id ? { near: { machine: rental.external_id } } : {}
}

async function startMeter(tx: Tx, volume: Volume, now: Instant): Promise<void> {
  await openSegment(tx, {
    metered: { rentalId: null, volumeId: volume.id },
    accountId: volume.account_id,
    startedAt: now,
    pricePerHour: volume.cost_nano_per_hour,
    supplier: null,
    dueAt: addMs(now, SETTLE_EVERY_MS),
  })
}

/** The old price ends and the new one begins when the provider has grown the volume. */
async function grow(app: App, volume: Volume, call: Call): Promise<Progress> {
  const { external_id: externalId, grow_to_gb: sizeGb } = volume
  if (externalId === null || sizeGb === null) return 'waiting'
  const unable = { kind: 'refused', message: 'The engine cannot grow volumes.' } as const
  const outcome = (await call.driver.grow?.(externalId, sizeGb, call.signal)) ?? unable
  await transact(app.database, async (tx) => {
    if (outcome.kind === 'refused') return giveUpGrowth(tx, volume, call.token, 'rejected_by_provider')
    const locked = await lockVolume(tx, volume.id)
    if (locked === undefined || locked.lease_token !== call.token || locked.grow_to_gb !== sizeGb) return
    const now = tx.clock.now()
    const charged = await endSegment(tx, { rentalId: null, volumeId: volume.id }, now, volumeMemo(locked))
    const grown = await endGrowth(tx, locked, true)
    if (charged !== undefined) await startMeter(tx, grown, now)
    recordVolumeEvent(tx, grown, 'volume.grown', { sizeInGb: sizeGb })
  })
  if (outcome.kind === 'refused') await noteFailure(app, volumeTask('volumes', volume), new Error(outcome.message))
  return outcome.kind === 'refused' ? 'waiting' : 'done'
}

/** Keeps the volume's size and price. The owner gets a reason without the provider's own message. */
async function giveUpGrowth(tx: Tx, volume: Volume, token: string, reason: string): Promise<void> {
  const locked = await lockVolume(tx, volume.id)
  if (locked === undefined || locked.lease_token !== token || locked.grow_to_gb !== volume.grow_to_gb) return
  await endGrowth(tx, locked, false)
  const sizes = { sizeInGb: locked.size_gb, refusedGb: locked.grow_to_gb }
  recordVolumeEvent(tx, locked, 'volume.grow_failed', { ...sizes, reason })
}

/** Fails the volume permanently: nothing is charged, and the owner gets a reason without the provider's own message. */
async function giveUp(tx: Tx, volume: Volume, reason: string): Promise<void> {
  if ((await moveVolume(tx, volume.id, 'failed', { state_reason: reason })) === undefined) return
  await closeMeter(tx, { rentalId: null, volumeId: volume.id }, tx.clock.now(), volumeMemo(volume))
  await deleteAttachments(tx, { volumeId: volume.id })
  recordVolumeEvent(tx, volume, 'volume.failed', { reason })
}

/** The volume is `deleted` only once the provider no longer lists it. */
async function remove(app: App, volume: Volume, call: Call): Promise<Progress> {
  const tag = tagOf(app.installationId, 'volume', volume)
  const volumes = (await call.driver.list(tag, call.signal)).filter((one) => one.tag === tag)
  for (const one of volumes) await call.driver.destroy(one.externalId, call.signal)
  const remaining =
    volumes.length === 0 ? [] : (await call.driver.list(tag, call.signal)).filter((one) => one.tag === tag)
  await transact(app.database, async (tx) => {
    const locked = await lockVolume(tx, volume.id)
    if (locked === undefined || locked.lease_token !== call.token || locked.state !== 'deleting') return
    if (remaining.length > 0) {
      await postpone(tx.db, volume, call.token, addMs(tx.clock.now(), backOffMs(volume.attempts)))
      return
    }
    await moveVolume(tx, volume.id, 'deleted', { terminated_at: tx.clock.now() })
    recordVolumeEvent(tx, volume, 'volume.deleted', { reason: locked.state_reason })
  })
  return remaining.length > 0 ? 'waiting' : 'done'
}

async function resumeOrDelete(app: App, volume: Volume, token: string): Promise<void> {
  await transact(app.database, async (tx) => {
    const locked = await lockVolume(tx, volume.id)
    if (locked === undefined || locked.lease_token !== token || locked.state !== 'suspended') return
    if (await resumeMeter(tx, locked)) {
      recordVolumeEvent(tx, volume, 'volume.resumed')
      return
    }
    const now = tx.clock.now()
    const attached = await listAttachments(tx.db, { volumeIds: [volume.id] })
    if (now - locked.state_since >= SUSPENDED_KEPT_MS && attached.length === 0) await deleteVolume(tx, locked, 'unpaid')
    else await postpone(tx.db, volume, token, addMs(now, RESUME_EVERY_MS))
  })
}

/** Resumes billing if the account can pay for the volume. False: it cannot, and nothing has changed. */
export async function resumeMeter(tx: Tx, volume: Volume): Promise<boolean> {
  const now = tx.clock.now()
  const hour = costOfSpan(volume.cost_nano_per_hour, HOLD_COVERS_MS)
  const budget =
    volume.api_key_id === null ? null : (await lockOrderFacts(tx, volume.account_id, volume.api_key_id)).key_budget
  if (budget !== null && budget < hour) return false
  const held = await placeHold(tx, {
    postingKey: `volume:${volume.id}:resume:${now}`,
    holdKey: holdKey({ rentalId: null, volumeId: volume.id }),
    accountId: volume.account_id,
    amount: hour,
    memo: `Held for volume ${volume.label}`,
  })
  if (held === 'insufficient') return false
  await moveVolume(tx, volume.id, 'active', { state_reason: null })
  await startMeter(tx, volume, now)
  return true
}
