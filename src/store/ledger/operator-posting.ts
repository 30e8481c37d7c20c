/** Earlier postings that matter for a new one by an operator: reuse of a key, and the refundable amount. */
import { sql } from 'kysely'
import { nanoUsdOf, type NanoUsd } from '../../base/money.ts'
import type { Tx } from '../platform/database.ts'
import type { LedgerKind, Posting } from './ledger.ts'

export interface OperatorPosting {
  readonly kind: Posting['kind']
  readonly rental_id: number | null
  readonly from_kind: LedgerKind
  readonly to_kind: LedgerKind
  readonly amount_nano: NanoUsd
}

/** A posting by an operator has one transfer. Call it under `lockAvailable`, so that none is being written. */
export async function findOperatorPosting(tx: Tx, key: string): Promise<OperatorPosting | undefined> {
  const { rows } = await sql<OperatorPosting>`
    select p.kind, p.rental_id, f.kind as from_kind, t.kind as to_kind, m.amount_nano
    from posting p
    join transfer m on m.posting_id = p.id
    join ledger_account f on f.id = m.from_id
    join ledger_account t on t.id = m.to_id
    where p.key = ${key}`.execute(tx.db)
  return rows[0]
}

/**
 * The amount that the account paid for the rental, less refunds. Of a charge only the customer's transfer counts; the
 * other one is the supplier's share. Call it under `lockAvailable`.
 */
export async function readRefundable(tx: Tx, accountId: string, rentalId: number): Promise<NanoUsd> {
  const result = await sql<{ refundable: bigint }>`
    select coalesce(sum(case p.kind when 'charge' then m.amount_nano else -m.amount_nano end), 0)::bigint as refundable
    from posting p
    join transfer m on m.posting_id = p.id
    join ledger_account l on l.id = case p.kind when 'charge' then m.from_id else m.to_id end
    where p.rental_id = ${rentalId}::integer and p.account_id = ${accountId}
      and p.kind in ('charge', 'refund') and l.account_id = ${accountId}`.execute(tx.db)
  return nanoUsdOf(result.rows[0]?.refundable ?? 0n)
}
