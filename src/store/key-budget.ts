/** What the spending limits of a key still allow. */
import { sql } from 'kysely'
import { toDate, type Instant } from '../base/instant.ts'
import type { NanoUsd } from '../base/money.ts'
import type { Db } from './database.ts'

/** null: the key has no limit. What its machines have set aside counts as spent. */
export async function readKeyBudget(db: Db, keyId: string, now: Instant): Promise<NanoUsd | null> {
  const rows = await sql<{ budget: NanoUsd | null }>`
    with aside as (
      select coalesce(sum(h.amount_nano), 0) as nano
      from rental r join hold h on h.key = 'rental:' || r.id
      where r.api_key_id = ${keyId} and r.status in ('Pending', 'Running', 'Unknown')
    )
    select least(
      k.total_limit_nano - (select coalesce(sum(spent_nano), 0) from key_spend where api_key_id = k.public_id),
      k.monthly_limit_nano - coalesce((select spent_nano from key_spend
        where api_key_id = k.public_id and month = date_trunc('month', ${toDate(now)}::timestamptz at time zone 'UTC')::date), 0)
    )::bigint - (select nano from aside)::bigint as budget
    from api_key k where k.public_id = ${keyId}`.execute(db)
  return rows.rows[0]?.budget ?? null
}
