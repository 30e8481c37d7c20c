/** Broken GPUs of rentals. The fault is recorded in the claim. */
import { sql } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import type { Db, Tx } from '../platform/database.ts'

export interface ClaimedGpu {
  readonly machineId: string
  readonly gpuIndex: number
  readonly rentalId: number
  /** The number of the GPU within the rental, from 0. */
  readonly position: number
  readonly claimedAt: Instant
  readonly faultySince: Instant | null
  readonly fault: string | null
}

const claims = sql`(
  select machine_id as "machineId", gpu_index as "gpuIndex", rental_id as "rentalId", claimed_at as "claimedAt",
    faulty_since as "faultySince", fault,
    (row_number() over (partition by rental_id order by machine_id, gpu_index) - 1)::integer as position
  from gpu_claim)`

export async function listClaims(db: Db, rentalId: number): Promise<ClaimedGpu[]> {
  const { rows } = await sql<ClaimedGpu>`
    select * from ${claims} c where c."rentalId" = ${rentalId} order by position`.execute(db)
  return rows
}

/**
 * Lists the rentals of a host whose recorded broken GPUs differ from `indexes`, as reported over the connection
 * `session`. Returns none if the host has a newer connection.
 */
export async function listMisjudgedRentals(
  db: Db,
  hostId: string,
  session: string,
  indexes: readonly number[],
): Promise<number[]> {
  const { rows } = await sql<{ rental_id: number }>`
    select distinct c.rental_id from gpu_claim c join host h on h.id = c.machine_id
    where c.machine_id = ${hostId} and h.session = ${session}
      and (c.faulty_since is not null) <> (c.gpu_index = any (${indexes}::integer[]))
    order by 1`.execute(db)
  return rows.map(({ rental_id }) => rental_id)
}

/** null: the GPU works again. */
export async function markFault(
  tx: Tx,
  { machineId, gpuIndex }: Pick<ClaimedGpu, 'machineId' | 'gpuIndex'>,
  fault: { readonly since: Instant; readonly message: string } | null,
): Promise<void> {
  await tx.db
    .updateTable('gpu_claim')
    .set({ faulty_since: fault === null ? null : toDate(fault.since), fault: fault?.message ?? null })
    .where('machine_id', '=', machineId)
    .where('gpu_index', '=', gpuIndex)
    .execute()
}

export async function countFaulty(db: Db, rentalId: number): Promise<number> {
  const { count } = await db
    .selectFrom('gpu_claim')
    .select(({ fn }) => fn.countAll<bigint>().as('count'))
    .where('rental_id', '=', rentalId)
    .where('faulty_since', 'is not', null)
    .executeTakeFirstOrThrow()
  return Number.parseInt(count.toString(), 10)
}
