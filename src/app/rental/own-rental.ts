/** A customer's own rentals: finding, changing and ending them. */
import { MAX_INT32 } from '../../base/limits.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import type { RentalType } from '../../contract/rental.ts'
import { isLiving, mayMove, type RentalKind } from '../../domain/rental.ts'
import { findCommitment } from '../../store/ledger/commitment.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import { readOrderedMachines } from '../../store/machine/machine.ts'
import { findRental, findRentalByName, lockRental, updateRental, type Rental } from '../../store/rental/rental.ts'
import { meterNow } from '../../store/ledger/segment.ts'
import type { Actor, App } from '../app.ts'
import { refuseIdle } from '../order/check-order.ts'
import type { GuardChange } from '../order/guard.ts'
import { limitBelowTerm } from '../order/place-order.ts'
import { recordRentalEvent } from './rental-event.ts'
import { terminateRental } from './rental.ts'

/** A rental of any kind, by id or name. */
export async function findAnyRental(db: Db, actor: Actor, idOrName: string): Promise<Result<Rental>> {
  const id = /^\d{1,10}$/.test(idOrName) ? Number.parseInt(idOrName, 10) : undefined
  const isId = id !== undefined && id > 0 && id <= MAX_INT32
  const rental = isId ? await findRental(db, id) : await findRentalByName(db, idOrName)
  return rental === undefined ? fail('rental_not_found') : ownRental(rental, actor, rental.kind)
}

/** Fails if the rental belongs to someone else or is of another kind. Without `kind`: any but instances. */
export function ownRental(rental: Rental | undefined, actor: Actor, kind?: RentalKind): Result<Rental> {
  const fits = kind === undefined ? rental?.kind !== 'container' : rental?.kind === kind
  return rental === undefined || rental.account_id !== actor.accountId || !fits ? fail('rental_not_found') : ok(rental)
}

export interface RentalChange extends GuardChange {
  readonly label?: string | null | undefined
  readonly convertOnExpiry?: boolean | undefined
}

/** Finds it by id or name. */
export async function lockOwnRental(tx: Tx, actor: Actor, idOrName: string): Promise<Result<Rental>> {
  const lookup = await findAnyRental(tx.db, actor, idOrName)
  if (!lookup.ok) return lookup
  const rental = await lockRental(tx, lookup.value.id)
  return rental === undefined ? fail('rental_not_found') : ok(rental)
}

/** Changes a live rental, by id or name. */
export async function changeOwnRental(
  app: Pick<App, 'drivers'>,
  tx: Tx,
  actor: Actor,
  idOrName: string,
  change: RentalChange,
): Promise<Result<Rental>> {
  const locked = await lockOwnRental(tx, actor, idOrName)
  if (!locked.ok) return locked
  const rental = locked.value
  if (!isLiving(rental.status)) {
    return fail('already_terminated', { rentalId: rental.id, status: rental.status })
  }
  if (change.autoTerminateAt && change.autoTerminateAt <= tx.clock.now()) {
    return failField(['autoTerminateAt'], 'time_in_past')
  }
  if (change.stopAt && change.stopAt <= tx.clock.now()) return failField(['stopAt'], 'time_in_past')
  if (rental.kind === 'bare-metal' && (change.stopAt || change.idle?.action === 'stop')) {
    const option = change.stopAt ? 'stopAt' : 'idle.action stop'
    return failField([change.stopAt ? 'stopAt' : 'idle'], 'option_not_supported', { option, kind: rental.kind })
  }
  if (rental.kind === 'container' && change.convertOnExpiry !== undefined) {
    const option = 'convertToOnDemandOnExpiry'
    return failField([option], 'option_not_supported', { option, kind: rental.kind })
  }
  const { machineId } = rental.spec.nodes[0] ?? { machineId: '' }
  const simulation = (await readOrderedMachines(tx.db, [machineId])).get(machineId)?.simulation ?? null
  const unwatched = refuseIdle(app, { driver: rental.driver, simulation }, change.idle)
  if (unwatched !== undefined) return unwatched
  const commitment = await findCommitment(tx.db, rental.id)
  const refused = limitBelowTerm(change.spendingLimit, commitment?.closedAt === null ? commitment : null)
  if (refused !== undefined) return refused
  const changed = await updateRental(tx, rental.id, {
    updated_at: tx.clock.now(),
    label: change.label,
    convert_on_expiry: change.convertOnExpiry,
    auto_terminate_at: change.autoTerminateAt,
    spending_limit_nano: change.spendingLimit,
    stop_at: change.stopAt,
    idle: change.idle,
  })
  // A new limit may end the rental sooner than the meter is due.
  await meterNow(tx, rental.id)
  recordRentalEvent(tx, changed, 'rental.changed')
  return ok(changed)
}

/** The rental must be of this kind, as the interface demands. Terminating it again fails. */
export async function terminateOwnRental(
  tx: Tx,
  actor: Actor,
  request: { readonly rentalId: number; readonly kind: RentalType; readonly note: string | undefined },
): Promise<Result<Rental>> {
  const { rentalId, kind, note } = request
  const inRange = rentalId > 0 && rentalId <= MAX_INT32
  const rental = ownRental(inRange ? await lockRental(tx, rentalId) : undefined, actor, kind)
  if (!rental.ok) return rental
  const { status } = rental.value
  if (!mayMove(status, 'Terminating')) return fail('already_terminated', { rentalId, status })
  return ok(await terminateRental(tx, rental.value, 'customer_request', tx.clock.now(), note))
}
