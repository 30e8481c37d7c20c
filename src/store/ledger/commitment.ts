/** Commitments of reserved rentals: written by `place_orders`, closed when the term is over. */
import { sql } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { nanoUsdOf, type NanoUsd } from '../../base/money.ts'
import type { Commitment, Ending } from '../../domain/commitment.ts'
import type { Db, Tx } from '../platform/database.ts'

export interface RentalCommitment extends Commitment {
  /** null: its term is running. */
  readonly closedAt: Instant | null
  readonly rerated: NanoUsd
}

/** undefined: the rental is on demand, or was reserved before commitments existed. */
export async function findCommitment(db: Db, rentalId: number): Promise<RentalCommitment | undefined> {
  const row = await db
    .selectFrom('commitment as c')
    .innerJoin('term as t', (join) => join.onRef('t.rental_id', '=', 'c.rental_id').on('t.term_type', '=', 'reserved'))
    .selectAll('c')
    .select(['t.effective_at', 't.reservation_ends_at', 't.cost_nano_per_hour'])
    .where('c.rental_id', '=', rentalId)
    .executeTakeFirst()
  if (row === undefined) return undefined
  return {
    total: row.total_nano,
    perHour: row.cost_nano_per_hour,
    startsAt: row.effective_at,
    endsAt: row.reservation_ends_at as Instant,
    rates: row.rates.map(({ days, nanoPerHour }) => ({ days, perHour: nanoUsdOf(BigInt(nanoPerHour)) })),
    closedAt: row.closed_at,
    rerated: row.rerated_nano,
  }
}

export async function hasOpenCommitment(db: Db, rentalId: number): Promise<boolean> {
  const row = await db
    .selectFrom('commitment')
    .select('rental_id')
    .where('rental_id', '=', rentalId)
    .where('closed_at', 'is', null)
    .executeTakeFirst()
  return row !== undefined
}

export async function closeCommitment(
  tx: Tx,
  rentalId: number,
  close: { readonly at: Instant; readonly ending: Ending; readonly atFault: boolean; readonly supplierShare: NanoUsd },
): Promise<void> {
  await tx.db
    .updateTable('commitment')
    .set({
      closed_at: toDate(close.at),
      closed_rate_nano: close.ending.rate,
      at_fault: close.atFault,
      rerated_nano: close.ending.extra,
      supplier_nano: close.supplierShare,
    })
    .where('rental_id', '=', rentalId)
    .where('closed_at', 'is', null)
    .execute()
}

/** Returns the charge for ending a term early, by rental; those without such a charge are left out. */
export async function readRerated(db: Db, rentalIds: readonly number[]): Promise<Map<number, NanoUsd>> {
  if (rentalIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('commitment')
    .select(['rental_id', 'rerated_nano'])
    .where(sql<boolean>`rental_id = any (${rentalIds}::integer[])`)
    .where('rerated_nano', '>', nanoUsdOf(0n))
    .execute()
  return new Map(rows.map((row) => [row.rental_id, row.rerated_nano]))
}
