/** Units of elastic providers' offers: listing them, and taking them off sale. */
import { sql } from 'kysely'
import type { Instant } from '../../base/instant.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import type { KnownUnit } from '../../domain/unit.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import { CAPACITY_WAKE } from './machine.ts'

/** Lists units by offer. */
export async function listUnits(db: Db, driver: ProviderId): Promise<Map<string, KnownUnit[]>> {
  const { rows } = await sql<{ offer_id: string; id: string; is_rented: boolean; is_unconfirmed: boolean }>`
    select m.offer_id, m.id, m.gpus_claimed > 0 as is_rented,
      exists (select 1 from gpu_claim c join rental r on r.id = c.rental_id
        where c.machine_id = m.id and r.external_id is null) as is_unconfirmed
    from machine m where m.driver = ${driver} and m.offer_id is not null order by m.id`.execute(db)
  const units = new Map<string, KnownUnit[]>()
  for (const { offer_id, id, is_rented, is_unconfirmed } of rows) {
    const unit = { id, isRented: is_rented, isUnconfirmed: is_unconfirmed }
    units.set(offer_id, [...(units.get(offer_id) ?? []), unit])
  }
  return units
}

/** Takes the free units off sale until the next report that has them. */
export async function closeOffers(tx: Tx, driver: ProviderId, offerIds: readonly string[]): Promise<void> {
  if (offerIds.length === 0) return
  tx.wake.add(CAPACITY_WAKE)
  await tx.db
    .updateTable('machine')
    .set({ status: 'node_lost' })
    .where('driver', '=', driver)
    .where('offer_id', 'in', offerIds)
    .where('status', '=', 'node_ready')
    .where('gpus_claimed', '=', 0)
    .execute()
}

/** Does the same for all offers last reported before that time. */
export async function dropStaleOffers(tx: Tx, driver: ProviderId, before: Instant): Promise<void> {
  const stale = await tx.db
    .selectFrom('machine')
    .select('offer_id')
    .distinct()
    .where('driver', '=', driver)
    .where('offer_id', 'is not', null)
    .where('seen_at', '<', at(before))
    .execute()
  await closeOffers(
    tx,
    driver,
    stale.flatMap(({ offer_id }) => offer_id ?? []),
  )
}
