/**
 * Reads from a driver's list what became of a rental that is stopped, being stopped or being started. Such a rental may be
 * unreachable for long without failing, since that would destroy its disk; meanwhile it is not charged.
 */
import { addMs, HOUR_MS, later, type Instant } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { failRental } from '../app/rental/rental.ts'
import { beginStop, finishStart, finishStop, powersOf, readTerm } from '../app/rental/rental-power.ts'
import { keepsDisk, ownStops } from '../domain/rental.ts'
import type { DriverMachine } from '../drivers/driver.ts'
import type { Tx } from '../store/platform/database.ts'
import type { LiveRow } from '../store/rental/rental-engine.ts'
import { updateRental, type Rental } from '../store/rental/rental.ts'
import { findOpenSegment } from '../store/ledger/segment.ts'

/**
 * A disk that has not been shown for this long is reported as lost. The rental stays: only the customer gives up the
 * disk.
 */
const LOST_AFTER_MS = 24 * HOUR_MS

/**
 * `off`: a machine that should run is off. `stopped`, `started`: the requested change has happened. `start_failed`: the
 * machine did not come up. `runs`: the machine runs although it should be off.
 */
export interface PowerStep {
  readonly kind: 'off' | 'stopped' | 'started' | 'start_failed' | 'runs'
  readonly id: number
  readonly machine: DriverMachine
}

/** A step for a disk that its provider does not show, or shows again. */
export type UnshownStep =
  | { readonly kind: 'unseen'; readonly id: number; readonly seenAt?: Instant; readonly reason?: string }
  | { readonly kind: 'shown_again' | 'disk_lost'; readonly id: number }

/**
 * Returns the step that follows from the rental and its machine. undefined: none. A reported failure never ends the
 * rental: the provider may be in the middle of its own work, or mean the start before this stop.
 */
export function powerStepFor(
  row: LiveRow,
  machine: DriverMachine | undefined,
  now: Instant,
): PowerStep | UnshownStep | undefined {
  const { id, status, missing_since: missing } = row
  // A call in progress may still change what was listed.
  const isIdle = row.lease_until === null || row.lease_until <= now
  if (machine !== undefined) {
    const isUp = machine.state === 'running' || machine.state === 'starting'
    if (status === 'Stopping' && machine.state === 'stopped' && isIdle) return { kind: 'stopped', id, machine }
    if (status === 'Starting' && machine.state === 'running') return { kind: 'started', id, machine }
    if (status === 'Starting' && machine.state === 'failed') return { kind: 'start_failed', id, machine }
    if (status === 'Stopped' && isUp) return { kind: 'runs', id, machine }
    // A machine that was off already is stopped by the next call.
    const isShown = machine.state !== 'unreachable' && (machine.failure === undefined || isOwnStop(machine))
    if (isShown) return missing === null ? undefined : { kind: 'shown_again', id }
  }
  if (missing === null) {
    const seenAt = machine?.seenAt === undefined ? {} : { seenAt: machine.seenAt }
    const isNamed = machine?.failure !== undefined && machine.state !== 'unreachable'
    return { kind: 'unseen', id, ...seenAt, ...(isNamed ? { reason: machine.failure } : {}) }
  }
  const isLost = machine?.state !== 'unreachable' && row.stuck_at === null && addMs(missing, LOST_AFTER_MS) <= now
  return isLost && status === 'Stopped' ? { kind: 'disk_lost', id } : undefined
}

/** Whether the machine went off by itself and can be started again. */
export function isOwnStop({ state, failure }: DriverMachine): boolean {
  return state === 'failed' && ownStops.some((reason) => reason === failure)
}

export async function takePowerStep(
  app: App,
  tx: Tx,
  rental: Rental,
  { kind, machine }: PowerStep,
  now: Instant,
  shownUntil: Instant,
): Promise<void> {
  const { status } = rental
  if (kind === 'off' && (status === 'Running' || status === 'Unknown'))
    return becomeOff(app, tx, rental, machine, shownUntil)
  if (kind === 'stopped' && status === 'Stopping') {
    const off = rental.missing_since === null ? now : (rental.seen_at ?? now)
    return finishStop(tx, rental, off, now, machine.machineId)
  }
  if (kind === 'started' && status === 'Starting')
    return finishStart(tx, rental, now, seenRunning(machine, now), machine.machineId)
  if (kind === 'start_failed' && status === 'Starting') {
    const reason = machine.failure ?? 'engine_failure'
    await beginStop(app, tx, rental, { reason, event: 'rental.start_failed', detail: machine.message })
  }
  if (kind === 'runs' && status === 'Stopped') await beginStop(app, tx, rental, { reason: 'started_elsewhere' })
}

/** Stops the rental and keeps its disk if the driver can start it again; otherwise the rental fails. */
async function becomeOff(app: App, tx: Tx, rental: Rental, machine: DriverMachine, shownUntil: Instant): Promise<void> {
  const reason = machine.failure ?? 'powered_off'
  if (!powersOf(app, rental, await readTerm(tx, rental.id)).stop) {
    await failRental(tx, rental, reason, machine.message, shownUntil)
    return
  }
  const off = rental.status === 'Unknown' ? (rental.seen_at ?? shownUntil) : shownUntil
  await beginStop(app, tx, rental, { reason, detail: machine.message, off })
}

/** The columns to write for a rental whose machine is seen running. */
export function seenRunning(machine: DriverMachine, now: Instant) {
  return {
    external_id: machine.externalId,
    seen_at: now,
    missing_since: null,
    ...(machine.incarnation === undefined ? {} : { incarnation: machine.incarnation }),
    ...(machine.data === undefined ? {} : { provider_data: machine.data }),
  }
}

/**
 * Records that the provider does not show the disk, with its reason if it gives one. Nothing is charged until the disk
 * is seen again.
 */
export async function becomeUnseen(tx: Tx, rental: Rental, shownAt: Instant | null, reason?: string): Promise<void> {
  if (!keepsDisk(rental.status) || rental.missing_since !== null) return
  const segment = await findOpenSegment(tx.db, { rentalId: rental.id, volumeId: null })
  const seenAt = later(segment?.settled_until ?? rental.status_since, shownAt ?? rental.status_since)
  const status_reason = rental.status === 'Stopped' ? reason : undefined
  await updateRental(tx, rental.id, { seen_at: seenAt, missing_since: tx.clock.now(), status_reason })
}
