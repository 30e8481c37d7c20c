/** The last output of machines that are gone, sealed by the caller (schema/baseline/07_rental.sql). */
import { sql } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import type { Db } from '../platform/database.ts'

/** Finds the rental of a workload. undefined: it is not on this host. */
export async function findMeasuredRental(
  db: Db,
  hostId: string,
  workloadId: string,
): Promise<{ id: number; accountId: string } | undefined> {
  const { rows } = await sql<{ id: number; accountId: string }>`
    select r.id, r.account_id as "accountId"
    from workload_node n join workload w on w.id = n.workload_id and w.spec is not null
    join rental r on r.id = substring(w.tag from '-(\\d{1,9})-[0-9a-f]+$')::integer
      and r.external_id = w.id and r.driver = w.driver
    where n.host_id = ${hostId} and n.workload_id = ${workloadId} and n.node_index = 0`.execute(db)
  return rows[0]
}

export async function saveRentalLog(db: Db, rentalId: number, sealed: string, now: Instant): Promise<void> {
  await db
    .insertInto('rental_log')
    .values({ rental_id: rentalId, sealed, created_at: toDate(now) })
    .onConflict((conflict) => conflict.column('rental_id').doUpdateSet({ sealed, created_at: toDate(now) }))
    .execute()
}

export async function readRentalLog(db: Db, rentalId: number): Promise<string | undefined> {
  const row = await db.selectFrom('rental_log').select('sealed').where('rental_id', '=', rentalId).executeTakeFirst()
  return row?.sealed
}

export async function deleteRentalLogs(db: Db, before: Instant): Promise<void> {
  await sql`delete from rental_log where created_at < ${toDate(before)}`.execute(db)
}
