/** Console sessions. Only hashes of tokens are stored. */
import { at, type Db, type Tx } from '../platform/database.ts'
import { toDate, type Instant } from '../../base/instant.ts'

/** Locks the key, so that concurrent sign-ins take turns and `keepNewestConsoleSessions` counts all of them. */
export async function insertConsoleSession(
  tx: Tx,
  session: { tokenHash: Buffer; keyId: string; expiresAt: Instant },
): Promise<void> {
  await tx.db
    .selectFrom('api_key')
    .select('public_id')
    .where('public_id', '=', session.keyId)
    .forNoKeyUpdate()
    .executeTakeFirst()
  await tx.db
    .insertInto('console_session')
    .values({
      token_hash: session.tokenHash,
      api_key_id: session.keyId,
      created_at: toDate(tx.clock.now()),
      expires_at: toDate(session.expiresAt),
    })
    .execute()
}

export async function keepNewestConsoleSessions(tx: Tx, keyId: string, most: number): Promise<void> {
  await tx.db
    .deleteFrom('console_session')
    .where('token_hash', 'in', (e) =>
      e
        .selectFrom('console_session')
        .select('token_hash')
        .where('api_key_id', '=', keyId)
        .orderBy('created_at', 'desc')
        .orderBy('token_hash')
        .offset(most),
    )
    .execute()
}

export async function deleteExpiredConsoleSessions(tx: Tx): Promise<void> {
  await tx.db.deleteFrom('console_session').where('expires_at', '<=', at(tx.clock.now())).execute()
}

/** Returns the public id of the key behind a live session. */
export async function findConsoleSessionKey(db: Db, tokenHash: Buffer, now: Instant): Promise<string | undefined> {
  const row = await db
    .selectFrom('console_session')
    .select('api_key_id')
    .where('token_hash', '=', tokenHash)
    .where('expires_at', '>', at(now))
    .executeTakeFirst()
  return row?.api_key_id
}

export async function deleteConsoleSession(tx: Tx, tokenHash: Buffer): Promise<void> {
  await tx.db.deleteFrom('console_session').where('token_hash', '=', tokenHash).execute()
}
