/** Offers of provider accounts as they are on sale here. */
import { sql } from 'kysely'
import type { Instant } from '../../base/instant.ts'
import { nanoUsdOf, type NanoUsd } from '../../base/money.ts'
import type { Db } from '../platform/database.ts'

export interface OfferSale {
  /** The selling price of the whole machine per hour. null: it has none. */
  readonly price: NanoUsd | null
  readonly free: number
  readonly rented: number
  readonly seenAt: Instant
}

/** Lists the sales of one account by offer. */
export async function listOfferSales(db: Db, account: string): Promise<Map<string, OfferSale>> {
  const sales = await sql<{ offer_id: string; price: bigint | null; free: number; rented: number; seen_at: Instant }>`
    select m.offer_id, max(coalesce(m.asking_nano_per_gpu_hour, p.nano_per_gpu_hour) * m.gpus_total)::bigint as price,
      count(*) filter (where m.status = 'node_ready' and m.listed and m.gpus_claimed = 0)::integer as free,
      count(*) filter (where m.gpus_claimed > 0)::integer as rented, max(m.seen_at) as seen_at
    from provider_account a
    join machine m on m.driver = a.driver and split_part(m.offer_id, ':', 2) = a.name
    left join gpu_price p on p.machine_type = m.offering and p.region = m.region and p.gpu_type = m.gpu_type
      and p.network_type = m.network_type and p.gpu_count = m.gpus_total and p.enabled
    where a.name = ${account} group by m.offer_id`.execute(db)
  return new Map(
    sales.rows.map(({ offer_id, price, free, rented, seen_at: seenAt }) => [
      offer_id,
      { price: price === null ? null : nanoUsdOf(price), free, rented, seenAt },
    ]),
  )
}
