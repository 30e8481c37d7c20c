/**
 * What the list of an engine means for a rental that is stopped, being stopped or being started. Such a rental may be
 * unreachable for long without failing, since that would destroy its disk; meanwhile it is not charged.
 */
import { addMs, HOUR_MS, later, type Instant } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { failRental } from '../app/rental.ts'
import { beginStop, finishStart, finishStop, powersOf, readTerm } from '../app/rental-power.ts'
import { keepsDisk, ownStops } from '../domain/rental.ts'
import type { EngineMachine } from '../engines/driver.ts'
import type { Tx } from '../store/database.ts'
import type { LiveRow } from '../store/rental-engine.ts'
import { updateRental, type Rental } from '../store/rental.ts'
import { findOpenSegment } from '../store/segment.ts'

/** Missing from the list for so long, its disk counts as lost. A host that does not answer is waited for forever. */
const ABSENT_WHEN_STOPPED_MS = 24 * HOUR_MS

/**
 * `off`: a machine that should run is off. `stopped`, `started`: as asked. `start_failed`: it did not come up. `runs`:
 * it runs although it should be off.
 */
export interface PowerStep {
  readonly kind: 'off' | 'stopped' | 'started' | 'start_failed' | 'runs'
  readonly id: number
  readonly machine: EngineMachine
}

type OtherStep =
  | { readonly kind: 'unseen'; readonly id: number; readonly seenAt?: Instant }
  | { readonly kind: 'failed'; readonly id: number; readonly machine: EngineMachine }
  | { readonly kind: 'shown_again' | 'never_came'; readonly id: number }

/** The step that a rental in one of these states and its machine call for. undefined: none. */
export function powerStepFor(
  row: LiveRow,
  machine: EngineMachine | undefined,
  now: Instant,
): PowerStep | OtherStep | undefined {
  const { id, status, missing_since: missing } = row
  if (machine === undefined || machine.state === 'unreachable') {
    const seenAt = machine?.seenAt === undefined ? {} : { seenAt: machine.seenAt }
    if (missing === null) return { kind: 'unseen', id, ...seenAt }
    const isGone = machine === undefined && status !== 'Starting' && addMs(missing, ABSENT_WHEN_STOPPED_MS) <= now
    return isGone ? { kind: 'never_came', id } : undefined
  }
  // A call that is under way may still change what was listed.
  const isIdle = row.lease_until === null || row.lease_until <= now
  const isUp = machine.state === 'running' || machine.state === 'starting'
  if (status === 'Stopping' && machine.state === 'stopped' && isIdle) return { kind: 'stopped', id, machine }
  if (status === 'Starting' && machine.state === 'running') return { kind: 'started', id, machine }
  if (status === 'Starting' && machine.state === 'failed') return { kind: 'start_failed', id, machine }
  if (status === 'Stopped' && isUp) return { kind: 'runs', id, machine }
  // A machine that was off anyway is stopped by the next call.
  if (machine.state === 'failed' && !isOwnStop(machine)) return { kind: 'failed', id, machine }
  return missing === null ? undefined : { kind: 'shown_again', id }
}

/** It went off by itself, and could be started again. */
export function isOwnStop({ state, failure }: EngineMachine): boolean {
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
    return finishStop(tx, rental, off, now)
  }
  if (kind === 'started' && status === 'Starting') return finishStart(tx, rental, now, seenRunning(machine, now))
  if (kind === 'start_failed' && status === 'Starting') {
    const reason = machine.failure ?? 'engine_failure'
    await beginStop(app, tx, rental, { reason, event: 'rental.start_failed', detail: machine.message })
  }
  if (kind === 'runs' && status === 'Stopped') await beginStop(app, tx, rental, { reason: 'started_elsewhere' })
}

/** Where its engine can start it again, its disk is kept; else it has failed. */
async function becomeOff(app: App, tx: Tx, rental: Rental, machine: EngineMachine, shownUntil: Instant): Promise<void> {
  const reason = machine.failure ?? 'powered_off'
  if (!powersOf(app, rental, await readTerm(tx, rental.id)).stop) {
    await failRental(tx, rental, reason, machine.message, shownUntil)
    return
  }
  const off = rental.status === 'Unknown' ? (rental.seen_at ?? shownUntil) : shownUntil
  await beginStop(app, tx, rental, { reason, detail: machine.message, off })
}

/** Columns of a rental whose machine is seen running. */
export function seenRunning(machine: EngineMachine, now: Instant) {
  return {
    external_id: machine.externalId,
    seen_at: now,
    missing_since: null,
    ...(machine.incarnation === undefined ? {} : { incarnation: machine.incarnation }),
    ...(machine.data === undefined ? {} : { provider_data: machine.data }),
  }
}

/** Not listed, or its host does not answer: it is not charged until it is seen again. */
export async function becomeUnseen(tx: Tx, rental: Rental, shownAt: Instant | null): Promise<void> {
  if (!keepsDisk(rental.status) || rental.missing_since !== null) return
  const segment = await findOpenSegment(tx.db, { rentalId: rental.id, volumeId: null })
  const seenAt = later(segment?.settled_until ?? rental.status_since, shownAt ?? rental.status_since)
  await updateRental(tx, rental.id, { seen_at: seenAt, missing_since: tx.clock.now() })
}
