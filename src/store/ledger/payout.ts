/** Payouts to suppliers. */
import { sql } from 'kysely'
import type { Db } from '../platform/database.ts'

/** Less what came back. */
export async function sumPayouts(db: Db, accountId: string): Promise<bigint> {
  const rows = await sql<{ paid: bigint }>`
    select coalesce(sum(case p.kind when 'payout' then t.amount_nano else -t.amount_nano end), 0)::bigint as paid
    from posting p join transfer t on t.posting_id = p.id
    where p.account_id = ${accountId} and p.kind in ('payout', 'payout_return')`.execute(db)
  return rows.rows[0]?.paid ?? 0n
}
