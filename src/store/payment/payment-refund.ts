/** Rows of refunds. What they do to the ledger is in payment-posting.ts. */
import { sql } from 'kysely'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import type { RefundFacts } from '../../domain/processor.ts'
import type { Db } from '../platform/database.ts'
import type { DueWork } from '../platform/due-work.ts'
import { hasDue, leaseDue, releaseLease, type Leased, type LeaseOptions } from '../platform/lease.ts'
import type { PaymentRefund } from './payment-posting.ts'

const all = sql`true`

export async function findRefundOf(db: Db, refundId: string): Promise<PaymentRefund | undefined> {
  return db.selectFrom('payment_refund').selectAll().where('refund_id', '=', refundId).executeTakeFirst()
}

export async function saveRefundFacts(db: Db, id: string, facts: RefundFacts, now: Instant): Promise<void> {
  const isDone = facts.status === 'succeeded'
  await db
    .updateTable('payment_refund')
    .set({ refund_id: facts.id, state: isDone ? 'succeeded' : 'sent', ended_at: isDone ? toDate(now) : null })
    .where('id', '=', id)
    .where('state', '<>', 'failed')
    .execute()
}

export const hasDueRefund: DueWork = ({ now }) => hasDue('payment_refund', all, now)

export async function leaseRefunds(db: Db, options: LeaseOptions): Promise<Leased<PaymentRefund>> {
  return leaseDue(db, 'payment_refund', all, options)
}

export async function releaseRefund(db: Db, id: string, token: string, dueAt: Instant | null): Promise<boolean> {
  return releaseLease(db, 'payment_refund', { id }, token, { due_at: toDateOrNull(dueAt) })
}
