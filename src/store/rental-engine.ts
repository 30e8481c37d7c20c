/** Rentals as the loops drive them at engines: rows that are due, and calls that were made. */
import { sql } from 'kysely'
import { toDate, type Instant } from '../base/instant.ts'
import type { ProviderId } from '../contract/provider-data.ts'
import type { Db, Tx } from './database.ts'
import { leaseDue, releaseLease, type Leased, type LeaseOptions } from './lease.ts'
import { lockRental, type Rental } from './rental.ts'

/** Pending rentals without an engine id. Those of drivers that this server lacks are left to other servers. */
export async function leaseToCreate(
  db: Db,
  drivers: readonly ProviderId[],
  options: LeaseOptions,
): Promise<Leased<Rental>> {
  const where = sql`t.status = 'Pending' and t.external_id is null and t.released_at is null
    and t.driver = any (${drivers}::text[])`
  return leaseDue(db, 'rental', where, options)
}

/** Ended and failed rentals that an engine may still run. */
export async function leaseToDestroy(
  db: Db,
  drivers: readonly ProviderId[],
  options: LeaseOptions,
): Promise<Leased<Rental>> {
  const where = sql`t.status in ('Terminating', 'Failed') and t.released_at is null and t.external_id is not null
    and t.driver = any (${drivers}::text[])`
  return leaseDue(db, 'rental', where, options)
}

/** Records the create call before it is made. False: the rental was ended or the lease was lost, so do not call. */
export async function recordCreateCall(db: Db, id: number, token: string, now: Instant): Promise<boolean> {
  const row = await db
    .updateTable('rental')
    .set({ create_asked_at: toDate(now) })
    .where('id', '=', id)
    .where('lease_token', '=', token)
    .where('status', '=', 'Pending')
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

/**
 * Ends the lease with the engine's answer to a create call; the row comes back locked. `externalId` null: the engine
 * refused and made nothing. undefined: the lease was lost.
 */
export async function saveCreateAnswer(
  tx: Tx,
  rental: Rental,
  token: string,
  externalId: string | null,
): Promise<Rental | undefined> {
  const saved = await releaseLease(tx.db, 'rental', rental, token, {
    due_at: toDate(tx.clock.now()),
    attempts: 0,
    ...(externalId === null ? { create_asked_at: null } : { external_id: externalId }),
  })
  return saved ? lockRental(tx, rental.id) : undefined
}
