/**
 * Money for the GPUs of models that the house serves to everyone. The operator's account rents them like any customer,
 * so suppliers are paid through the same charges. The house puts money into that account before each order and for the
 * next hour of what runs, and takes back what is no longer needed, so its `revenue` is the income from tokens minus the
 * cost of GPUs. The account's own money is not touched. Hourly budgets of the deployments limit all of it.
 */
import { randomUUID } from 'node:crypto'
import { nanoUsdOf, type NanoUsd } from '../../base/money.ts'
import { planHouseMoney } from '../../domain/house-money.ts'
import { transact, type Database, type Tx } from '../../store/platform/database.ts'
import { noteHouseMoney, readHouseMoney } from '../../store/ledger/house-money.ts'
import { lockAvailable, post } from '../../store/ledger/ledger.ts'

/** This account exists on every installation (server/data/first-run.ts). */
export const HOUSE_ACCOUNT = 'operator'

/** Gives the account at least `needed` of the house's money before an order, besides what is held. */
export async function fundHouse(tx: Tx, accountId: string, needed: NanoUsd): Promise<void> {
  await lockAvailable(tx, [accountId])
  const [money] = await readHouseMoney(tx.db, accountId)
  const free = money?.free ?? 0n
  if (free < needed) await move(tx, accountId, needed - free)
}

/** Provides for the next hour of what runs, in each account with replicas or money of the house. */
export async function balanceHouse(database: Database): Promise<void> {
  for (const snapshot of await readHouseMoney(database.db)) {
    if (planHouseMoney(snapshot) === 0n) continue
    await transact(database, async (tx) => {
      const available = (await lockAvailable(tx, [snapshot.accountId])).get(snapshot.accountId) ?? nanoUsdOf(0n)
      const [money] = await readHouseMoney(tx.db, snapshot.accountId)
      const planned = money === undefined ? 0n : planHouseMoney(money)
      // A refund or an adjustment may have taken the money already.
      const minimum: bigint = 0n - available
      const amount = planned < minimum ? minimum : planned
      if (amount !== 0n) await move(tx, snapshot.accountId, amount)
    })
  }
}

async function move(tx: Tx, accountId: string, amount: bigint): Promise<void> {
  const house = { accountId: null, kind: 'revenue' } as const
  const account = { accountId, kind: 'available' } as const
  const isReturn = amount < 0n
  const outcome = await post(tx, {
    key: `house:${randomUUID()}`,
    kind: isReturn ? 'adjustment' : 'credit',
    accountId,
    memo: isReturn ? 'Unused money for GPUs of models for everyone' : 'GPUs of models for everyone',
    actor: 'serve',
    reason: 'managed deployments of the house',
    transfers: [
      {
        from: isReturn ? account : house,
        to: isReturn ? house : account,
        amount: nanoUsdOf(isReturn ? -amount : amount),
      },
    ],
  })
  if (outcome !== 'posted') throw new Error(`the money of the house was not moved: ${outcome}`)
  await noteHouseMoney(tx, accountId, amount)
}
