/** Join tokens. Only hashes are stored. */
import type { Selectable } from 'kysely'
import { addMs, DAY_MS, toDate, type Instant } from '../../base/instant.ts'
import type { NewJoinToken } from '../../base/join-token.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type JoinToken = Selectable<Tables['join_token']>

/** Expired tokens are listed for a while, so that it is visible why a machine was refused. */
const KEPT_MS = 7 * DAY_MS

export async function insertJoinToken(
  tx: Tx,
  newToken: NewJoinToken,
  token: { accountId: string; supplierId: string | null; uses: number; expiresAt: Instant },
): Promise<JoinToken> {
  const now = tx.clock.now()
  await tx.db
    .deleteFrom('join_token')
    .where('account_id', '=', token.accountId)
    .where('expires_at', '<', at(addMs(now, -KEPT_MS)))
    .execute()
  return tx.db
    .insertInto('join_token')
    .values({
      id: newToken.id,
      account_id: token.accountId,
      hash: newToken.hash,
      supplier_id: token.supplierId,
      uses_left: token.uses,
      created_at: toDate(now),
      expires_at: toDate(token.expiresAt),
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

export async function listJoinTokens(
  db: Db,
  query: { accountId: string; after?: string; limit: number },
): Promise<JoinToken[]> {
  let select = db.selectFrom('join_token').selectAll().where('account_id', '=', query.accountId)
  if (query.after !== undefined) select = select.where('id', '>', query.after)
  return select.orderBy('id').limit(query.limit).execute()
}

export async function countJoinTokens(tx: Tx, accountId: string): Promise<number> {
  const { count } = await tx.db
    .selectFrom('join_token')
    .select((e) => e.fn.countAll<bigint>().as('count'))
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  return Number.parseInt(count.toString(), 10)
}

/** Locks the token: concurrent joins take turns, so that it is not used too often. */
export async function lockJoinToken(tx: Tx, hash: Buffer): Promise<JoinToken | undefined> {
  return tx.db.selectFrom('join_token').selectAll().where('hash', '=', hash).forUpdate().executeTakeFirst()
}

export async function useJoinToken(tx: Tx, id: string): Promise<void> {
  await tx.db
    .updateTable('join_token')
    .set((e) => ({ uses_left: e('uses_left', '-', 1) }))
    .where('id', '=', id)
    .execute()
}

/** False: the account has no such token. */
export async function deleteJoinToken(tx: Tx, accountId: string, id: string): Promise<boolean> {
  const row = await tx.db
    .deleteFrom('join_token')
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}
