/**
 * Books payouts and what comes back, each with its row in one transaction. The row of the payout is locked before the
 * balances.
 */
import { sql } from 'kysely'
import { toDate } from '../../base/instant.ts'
import { nanoUsdOf, type NanoUsd } from '../../base/money.ts'
import { post, type LedgerRef } from '../ledger/ledger.ts'
import { noLease } from '../platform/lease.ts'
import type { Tx } from '../platform/database.ts'
import type { Payout } from './payout.ts'
import type { PayoutAccount } from './payout-account.ts'

/** Takes the earnings, and fixes where they go. False: the balance does not cover them, and nothing was written. */
export async function takePayout(tx: Tx, payout: Payout, to: PayoutAccount, actor: string): Promise<boolean> {
  const answer = await post(tx, {
    key: `payout:${payout.id}`,
    kind: 'payout',
    accountId: payout.account_id,
    memo: 'Payout',
    actor,
    reason: null,
    transfers: [{ from: earningsOf(payout), to: sinkOf(payout), amount: payout.amount_nano }],
  })
  if (answer === 'insufficient') return false
  await tx.db
    .updateTable('payout')
    .set({
      state: 'approved',
      destination: payout.kind === 'stripe' ? to.stripe_id : null,
      details_sealed: payout.kind === 'bank' ? to.details_sealed : null,
      hint: to.hint,
      due_at: payout.kind === 'stripe' ? toDate(tx.clock.now()) : null,
    })
    .where('id', '=', payout.id)
    .where('state', '=', 'draft')
    .execute()
  return true
}

/** Puts money of a payout into the earnings again. False: it came back before. The caller has locked the payout. */
export async function returnPayout(
  tx: Tx,
  payout: Payout,
  back: { readonly id: string; readonly amount: NanoUsd; readonly failure: string },
): Promise<boolean> {
  const at = toDate(tx.clock.now())
  const { rows } = await sql`
    insert into payout_return (id, payout_id, amount_nano, at)
    values (${back.id}, ${payout.id}, ${back.amount.toString()}::bigint, ${at}) on conflict do nothing returning 1`.execute(
    tx.db,
  )
  if (rows.length === 0) return false
  await post(tx, {
    key: `payout-return:${back.id}`,
    kind: 'payout_return',
    accountId: payout.account_id,
    memo: 'Payout returned',
    actor: null,
    reason: null,
    transfers: [{ from: sinkOf(payout), to: earningsOf(payout), amount: back.amount }],
  })
  const returned = nanoUsdOf(payout.returned_nano + back.amount)
  const isOver = returned === payout.amount_nano
  await tx.db
    .updateTable('payout')
    .set({
      returned_nano: returned,
      failure: back.failure.slice(0, 500),
      ...(isOver ? { ...noLease, state: 'failed', due_at: null, ended_at: at } : {}),
    })
    .where('id', '=', payout.id)
    .execute()
  return true
}

function earningsOf(payout: Payout): LedgerRef {
  return { accountId: payout.account_id, kind: 'earnings' }
}

/** Money that goes through the processor leaves the operator's balance there. */
function sinkOf(payout: Payout): LedgerRef {
  return { accountId: null, kind: payout.kind === 'stripe' ? 'processor' : 'payouts' }
}
