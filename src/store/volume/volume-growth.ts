/** Growth of volumes, and their use as drivers report it. */
import { sql } from 'kysely'
import { toDate } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { Db, Tx } from '../platform/database.ts'
import { noLease } from '../platform/lease.ts'
import type { Volume } from './volume.ts'

/** The volume keeps its size and price until the driver has grown it. */
export async function requestGrowth(
  tx: Tx,
  id: number,
  growth: { sizeGb: number; costPerHour: NanoUsd },
): Promise<Volume> {
  const now = toDate(tx.clock.now())
  return tx.db
    .updateTable('volume')
    .set({
      grow_to_gb: growth.sizeGb,
      grow_cost_nano_per_hour: growth.costPerHour,
      updated_at: now,
      due_at: now,
      attempts: 0,
      ...noLease,
    })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** `grown`: it has its new size and price. Otherwise it keeps the old ones. */
export async function endGrowth(tx: Tx, volume: Volume, grown: boolean): Promise<Volume> {
  const { grow_to_gb: sizeGb, grow_cost_nano_per_hour: cost } = volume
  return tx.db
    .updateTable('volume')
    .set({
      ...(grown && sizeGb !== null && cost !== null ? { size_gb: sizeGb, cost_nano_per_hour: cost } : {}),
      grow_to_gb: null,
      grow_cost_nano_per_hour: null,
      updated_at: toDate(tx.clock.now()),
      attempts: 0,
      ...noLease,
    })
    .where('id', '=', volume.id)
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Writes in one statement, and only what has changed. */
export async function saveVolumeUse(db: Db, usedGb: ReadonlyMap<number, number>): Promise<void> {
  if (usedGb.size === 0) return
  await sql`
    update volume v set used_gb = u.gb
    from unnest(${[...usedGb.keys()]}::integer[], ${[...usedGb.values()]}::double precision[]) as u (id, gb)
    where v.id = u.id and v.used_gb is distinct from u.gb`.execute(db)
}

/** Returns those of the volumes that are being copied: they must not change meanwhile. */
export async function listCopied(db: Db, ids: readonly number[]): Promise<Set<number>> {
  if (ids.length === 0) return new Set()
  const rows = await db
    .selectFrom('volume')
    .select('copy_of')
    .where('copy_of', 'in', ids)
    .where('state', '=', 'creating')
    .execute()
  return new Set(rows.flatMap(({ copy_of: id }) => id ?? []))
}
