/** Stored responses of idempotent requests. */
import { sql } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { at, prepareAs, type Db, type Tx } from './database.ts'

/** False: the key is taken. Waits for a transaction that is taking it now. */
export async function startIdempotency(
  tx: Tx,
  row: { accountId: string; key: string; operation: string; bodyHash: Buffer },
): Promise<boolean> {
  const newRow = await tx.db
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
  return newRow !== undefined
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

/** Returns which of them were free. They must be different ones. */
export async function startIdempotencies(
  tx: Tx,
  rows: ReadonlyArray<{ accountId: string; key: string; operation: string; bodyHash: Buffer }>,
): Promise<(accountId: string, key: string) => boolean> {
  const nameOf = (accountId: string, key: string): string => `${accountId} ${key}`
  if (rows.length === 0) return () => false
  const values = rows
    // Rows are written in one order, so that two servers that are sent the same requests do not wait for each other.
    .toSorted((one, other) => (nameOf(one.accountId, one.key) < nameOf(other.accountId, other.key) ? -1 : 1))
    .map(({ accountId, key, operation, bodyHash }) => ({
      account_id: accountId,
      key,
      operation,
      body_hash: bodyHash,
      created_at: toDate(tx.clock.now()),
    }))
  const newRows = await tx.db
    .insertInto('idempotency')
    .values(values)
    .onConflict((conflict) => conflict.doNothing())
    .returning(['account_id', 'key'])
    .execute()
  const names = new Set(newRows.map((row) => nameOf(row.account_id, row.key)))
  return (accountId, key) => names.has(nameOf(accountId, key))
}

/** Stores the responses of started keys. Those without one are free again. */
export async function endIdempotencies(
  tx: Tx,
  rows: ReadonlyArray<{ accountId: string; key: string; responseSealed: string | undefined }>,
): Promise<void> {
  if (rows.length === 0) return
  const responses = rows.map(({ responseSealed }) => responseSealed ?? null)
  await sql`${prepareAs('end_idempotencies')}
    with given as materialized (
      select * from unnest(${rows.map(({ accountId }) => accountId)}::text[], ${rows.map(({ key }) => key)}::text[],
        ${responses}::text[]) as given (account_id, key, response)
    ), freed as (
      delete from idempotency i using given g where i.account_id = g.account_id and i.key = g.key and g.response is null
    )
    update idempotency i set response_sealed = g.response
      from given g where i.account_id = g.account_id and i.key = g.key and g.response is not null`.execute(tx.db)
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
  const result = await db.deleteFrom('idempotency').where('created_at', '<', at(before)).executeTakeFirst()
  return result.numDeletedRows
}
