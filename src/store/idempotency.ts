/** Stored responses of idempotent requests. */
import { toDate, type Instant } from '../base/instant.ts'
import { at, type Db, type Tx } from './database.ts'

/** False: the key is taken. Waits for a transaction that is taking it now. */
export async function startIdempotency(
  tx: Tx,
  row: { accountId: string; key: string; operation: string; bodyHash: Buffer },
): Promise<boolean> {
  const inserted = await tx.db
    .insertInto('idempotency')
    .values({
      account_id: row.accountId,
      key: row.key,
      operation: row.operation,
      body_hash: row.bodyHash,
      created_at: toDate(tx.clock.now()),
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning('key')
    .executeTakeFirst()
  return inserted !== undefined
}

export async function completeIdempotency(
  tx: Tx,
  accountId: string,
  key: string,
  responseSealed: string,
): Promise<void> {
  await tx.db
    .updateTable('idempotency')
    .set({ response_sealed: responseSealed })
    .where('account_id', '=', accountId)
    .where('key', '=', key)
    .execute()
}

export async function findIdempotency(
  db: Db,
  accountId: string,
  key: string,
): Promise<{ operation: string; bodyHash: Buffer; responseSealed: string } | undefined> {
  const row = await db
    .selectFrom('idempotency')
    .select(['operation', 'body_hash', 'response_sealed'])
    .where('account_id', '=', accountId)
    .where('key', '=', key)
    .executeTakeFirst()
  if (row === undefined || row.response_sealed === null) return undefined
  return { operation: row.operation, bodyHash: row.body_hash, responseSealed: row.response_sealed }
}

export async function deleteIdempotency(db: Db, before: Instant): Promise<bigint> {
  const deleted = await db.deleteFrom('idempotency').where('created_at', '<', at(before)).executeTakeFirst()
  return deleted.numDeletedRows
}
