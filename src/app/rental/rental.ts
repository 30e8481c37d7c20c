/**
 * The life of a rental: ending, failing and releasing it. A request only records the desired state; the reconcilers apply
 * it. Each function runs in one transaction and leaves the ledger balanced.
 */
import { addMs, formatInstant, type Instant } from '../../base/instant.ts'
import { formatUsd } from '../../base/money.ts'
import { isUnseen, mayMove, tagOf } from '../../domain/rental.ts'
import type { Tx } from '../../store/platform/database.ts'
import { recordEvent } from '../../store/notice/event.ts'
import { countFaulty } from '../../store/machine/gpu-fault.ts'
import { releaseGpus } from '../../store/machine/machine.ts'
import { GROUPS_WAKE } from '../../store/rental/group.ts'
import { recordOutcome } from '../../store/machine/offer-outcome.ts'
import { moveRental, updateRental, type Rental } from '../../store/rental/rental.ts'
import { deleteAttachments, detach } from '../../store/volume/volume.ts'
import type { App } from '../app.ts'
import { recordRentalEvent } from './rental-event.ts'
import { closeRentalMeter, passTermEnd } from './rental-term.ts'

/**
 * Ends a locked rental: the bill stops at `end`, the rest of the hold is released, and `terminate` tells the provider
 * to destroy the machine. A rental whose provider was never called ends at once. A term that ended before `end` is
 * applied first.
 */
export async function terminateRental(
  tx: Tx,
  rental: Rental,
  reason: string,
  end: Instant,
  note?: string,
): Promise<Rental> {
  if (!mayMove(rental.status, 'Terminating')) return rental
  // A term that ends at the same instant is not converted.
  const forced = await passTermEnd(tx, rental, addMs(billedUntil(rental, end), -1))
  const ended = forced ?? { reason, at: end }
  wakeGroup(tx, rental)
  const moved = await moveRental(tx, rental.id, 'Terminating', {
    status_reason: ended.reason,
    terminate_requested_at: ended.at,
    ...(note === undefined ? {} : { termination_note: note }),
  })
  if (moved === undefined) throw new Error(`rental ${rental.id} cannot be ended in the state ${rental.status}`)
  // A customer is not bound to a machine that is unreachable or has a broken GPU.
  const atFault = rental.status === 'Unknown' || (await countFaulty(tx.db, rental.id)) > 0
  const ending = await closeRentalMeter(tx, rental, billedUntil(rental, ended.at), atFault)
  await detach(tx, { rentalId: rental.id })
  recordRentalEvent(tx, rental, 'rental.terminating', {
    reason: ended.reason,
    at: formatInstant(ended.at),
    ...(note === undefined ? {} : { note }),
    ...(ending === undefined || ending.extra === 0n ? {} : { earlyEndUsd: formatUsd(ending.extra) }),
  })
  if (rental.released_at !== null || wasNeverCalled(rental, tx.clock.now())) return releaseRental(tx, moved)
  tx.wake.add('terminate')
  return moved
}

/**
 * Fails a locked rental, and does nothing to one whose disk is kept. The bill stops, and its GPUs are released once the
 * provider no longer lists it.
 */
export async function failRental(
  tx: Tx,
  rental: Rental,
  reason: string,
  detail?: string,
  shownUntil: Instant = tx.clock.now(),
): Promise<Rental | undefined> {
  if (!mayMove(rental.status, 'Failed')) return undefined
  const until = billedUntil(rental, shownUntil)
  const forced = await passTermEnd(tx, rental, addMs(until, -1))
  const moved = await moveRental(tx, rental.id, 'Failed', { status_reason: reason })
  if (moved === undefined) return undefined
  wakeGroup(tx, rental)
  await closeRentalMeter(tx, rental, forced?.at ?? until, true)
  if (rental.status === 'Pending' && reason !== 'no_capacity') await recordOutcome(tx, rental, { kind: 'failed' })
  await detach(tx, { rentalId: rental.id })
  recordRentalEvent(tx, rental, 'rental.failed', { reason, ...(detail === undefined ? {} : { detail }) })
  if (wasNeverCalled(moved, tx.clock.now())) return releaseRental(tx, moved)
  tx.wake.add('terminate')
  return moved
}

/** The provider no longer has it: releases the GPUs, and a Terminating rental becomes Terminated. */
export async function releaseRental(tx: Tx, rental: Rental): Promise<Rental> {
  await releaseGpus(tx, rental.id)
  wakeGroup(tx, rental)
  for (const volumeId of await deleteAttachments(tx, { rentalId: rental.id })) {
    recordEvent(tx, {
      accountId: rental.account_id,
      type: 'volume.detached',
      subject: { kind: 'volume', id: String(volumeId) },
      data: { storageVolumeId: volumeId, rentalId: rental.id },
    })
  }
  const now = tx.clock.now()
  if (rental.status === 'Terminating') {
    const ended = await moveRental(tx, rental.id, 'Terminated', {
      terminated_at: now,
      released_at: rental.released_at ?? now,
    })
    if (ended === undefined) throw new Error(`rental ${rental.id} is no longer Terminating`)
    recordRentalEvent(tx, rental, 'rental.terminated', { reason: rental.status_reason })
    return ended
  }
  return updateRental(tx, rental.id, { released_at: now })
}

/** The end of one node decides about the others. */
function wakeGroup(tx: Tx, { spec }: Rental): void {
  if (spec.group !== undefined) tx.wake.add(GROUPS_WAKE)
}

/** The provider was not called, and no reconciler is about to call it. */
function wasNeverCalled(rental: Rental, now: Instant): boolean {
  return rental.create_asked_at === null && (rental.lease_until === null || rental.lease_until <= now)
}

/** While its provider does not list it, a rental is billed only until its machine was last seen. */
function billedUntil(rental: Rental, end: Instant): Instant {
  return isUnseen(rental) && rental.seen_at !== null && rental.seen_at < end ? rental.seen_at : end
}

export function rentalTag(app: App, rental: Pick<Rental, 'id' | 'nonce'>): string {
  return tagOf(app.installationId, 'rental', rental)
}
