/** Rows of disputes. What they take is in payment-posting.ts. */
import { sql } from 'kysely'
import { toDate } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { PaymentDispute } from './payment-posting.ts'

/** Writes the newest state. The caller has locked the payment. */
export async function saveDispute(
  tx: Tx,
  paymentId: string,
  dispute: Pick<PaymentDispute, 'id' | 'state' | 'reason'> & { readonly amount: NanoUsd },
): Promise<PaymentDispute> {
  const now = toDate(tx.clock.now())
  const { rows } = await sql<PaymentDispute>`
    insert into payment_dispute as d (id, payment_id, state, reason, amount_nano, created_at, updated_at)
    values (${dispute.id}, ${paymentId}, ${dispute.state}, ${dispute.reason.slice(0, 100)},
      ${dispute.amount.toString()}::bigint, ${now}, ${now})
    on conflict (id) do update set state = excluded.state, updated_at = excluded.updated_at,
      amount_nano = greatest(excluded.amount_nano, d.taken_nano + d.tax_nano)
    returning *`.execute(tx.db)
  const [row] = rows
  if (row === undefined) throw new Error(`the dispute ${dispute.id} was not written`)
  return row
}

/** Disputes whose money the processor has, of one payment. */
export async function listOpenDisputes(db: Db, paymentId: string): Promise<PaymentDispute[]> {
  return db
    .selectFrom('payment_dispute')
    .selectAll()
    .where('payment_id', '=', paymentId)
    .where('state', 'in', ['open', 'lost'])
    .where('takes', '>', 0)
    .where('is_returned', '=', false)
    .orderBy('id')
    .execute()
}
