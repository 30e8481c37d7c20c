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

/** The accounts whose key was free, of at most one key per account. */
export async function startIdempotencies(
  tx: Tx,
  rows: ReadonlyArray<{ accountId: string; key: string; operation: string; bodyHash: Buffer }>,
): Promise<Set<string>> {
  if (rows.length === 0) return new Set()
  const values = rows
    // In one order, so that two servers that are sent the same requests do not wait for each other.
    .toSorted((one, other) => (one.accountId < other.accountId ? -1 : 1))
    .map(({ accountId, key, operation, bodyHash }) => ({
      account_id: accountId,
      key,
      operation,
      body_hash: bodyHash,
      created_at: toDate(tx.clock.now()),
    }))
  const started = await tx.db
    .insertInto('idempotency')
    .values(values)
    .onConflict((conflict) => conflict.doNothing())
    .returning('account_id')
    .execute()
  return new Set(started.map((row) => row.account_id))
}

/** Stores the responses of started keys. Those without one are free again. */
export async function endIdempotencies(
  tx: Tx,
  rows: ReadonlyArray<{ accountId: string; key: string; responseSealed: string | undefined }>,
): Promise<void> {
  for (const { accountId, key, responseSealed } of rows) {
    if (responseSealed !== undefined) await completeIdempotency(tx, accountId, key, responseSealed)
    else await tx.db.deleteFrom('idempotency').where('account_id', '=', accountId).where('key', '=', key).execute()
  }
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
