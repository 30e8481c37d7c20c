/**
 * Money for the GPUs of models that the house serves to everyone. The operator's account rents them like any customer,
 * so suppliers are paid through the same charges; its balance is filled from the house's revenue. What the house pays is
 * therefore revenue from tokens minus these transfers, and the hourly budgets of the deployments limit it.
 */
import { randomUUID } from 'node:crypto'
import { nanoUsdOf, type NanoUsd } from '../base/money.ts'
import type { Tx } from '../store/database.ts'
import { lockAvailable, post } from '../store/ledger.ts'

/** Exists on every installation (server/first-run.ts). */
export const HOUSE_ACCOUNT = 'operator'

/** Fills the account's balance up to `needed`. */
export async function fundHouse(tx: Tx, accountId: string, needed: NanoUsd): Promise<void> {
  const available = (await lockAvailable(tx, [accountId])).get(accountId) ?? nanoUsdOf(0n)
  if (available >= needed) return
  await post(tx, {
    key: `house:${randomUUID()}`,
    kind: 'credit',
    accountId,
    memo: 'GPUs of models for everyone',
    actor: 'serve',
    reason: 'managed deployments of the house',
    transfers: [
      {
        from: { accountId: null, kind: 'revenue' },
        to: { accountId, kind: 'available' },
        amount: nanoUsdOf(needed - available),
      },
    ],
  })
}
