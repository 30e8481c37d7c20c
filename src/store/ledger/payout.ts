/** Payouts to suppliers. */
import { sql } from 'kysely'
import type { Db } from '../platform/database.ts'

export async function sumPayouts(db: Db, accountId: string): Promise<bigint> {
  const rows = await sql<{ paid: bigint }>`
    select coalesce(sum(t.amount_nano), 0)::bigint as paid
    from posting p join transfer t on t.posting_id = p.id
    where p.account_id = ${accountId} and p.kind = 'payout'`.execute(db)
  return rows.rows[0]?.paid ?? 0n
}
