/** What an order is held against. */
import { sql } from 'kysely'
import { toDate } from '../base/instant.ts'
import type { Quota } from '../base/limits.ts'
import type { NanoUsd } from '../base/money.ts'
import type { Tx } from './database.ts'

export interface OrderFacts {
  /** Only what differs from the default. */
  readonly quota: Partial<Quota>
  readonly gpus_in_use: number
  readonly ssh_keys: string[]
  /** What the key's limits still allow. null: it has none. */
  readonly key_budget: NanoUsd | null
}

/** Locks the account's balances and reads; other orders of the account wait until the transaction ends. */
export async function lockOrderFacts(tx: Tx, accountId: string, keyId: string): Promise<OrderFacts> {
  const found = await sql<OrderFacts>`
    select * from lock_order_facts(${accountId}, ${keyId}, ${toDate(tx.clock.now())})`.execute(tx.db)
  const facts = found.rows[0]
  if (facts === undefined) throw new Error(`there is no account ${accountId}`)
  return facts
}
