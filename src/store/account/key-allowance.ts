/** The amount that a key may still spend. */
import { sql } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { Db } from '../platform/database.ts'

/** Its limits less what was charged and set aside. null: it has no limit. A look only: an order checks it under a lock. */
export async function readKeyAllowance(
  db: Db,
  key: { readonly accountId: string; readonly keyId: string },
  now: Instant,
): Promise<NanoUsd | null> {
  const { rows } = await sql<{ allowance: NanoUsd | null }>`
    select key_allowance(${key.accountId}, ${key.keyId}, ${toDate(now)}) as allowance`.execute(db)
  return rows[0]?.allowance ?? null
}
