/** Codes of agents that sign in with OAuth, and the keys that they are exchanged for. */
import { sql, type Selectable } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type OauthGrant = Selectable<Tables['oauth_grant']>

export interface NewOauthGrant {
  readonly codeHash: Buffer
  readonly clientId: string
  readonly redirectUri: string
  readonly challenge: Buffer
  readonly keyId: string
  readonly keySealed: string
  readonly expiresAt: Instant
}

export async function insertOauthGrant(tx: Tx, grant: NewOauthGrant): Promise<void> {
  await tx.db
    .insertInto('oauth_grant')
    .values({
      code_hash: grant.codeHash,
      client_id: grant.clientId,
      redirect_uri: grant.redirectUri,
      challenge: grant.challenge,
      api_key_id: grant.keyId,
      key_sealed: grant.keySealed,
      expires_at: toDate(grant.expiresAt),
    })
    .execute()
}

/** Also one that has expired or was exchanged. */
export async function lockOauthGrant(tx: Tx, codeHash: Buffer): Promise<OauthGrant | undefined> {
  return tx.db.selectFrom('oauth_grant').selectAll().where('code_hash', '=', codeHash).forUpdate().executeTakeFirst()
}

/** The client has the key, or nobody will ever have it. */
export async function forgetOauthKey(tx: Tx, codeHash: Buffer): Promise<void> {
  await tx.db.updateTable('oauth_grant').set({ key_sealed: null }).where('code_hash', '=', codeHash).execute()
}

/** Locks expired grants whose code nobody exchanged. Other servers skip them. */
export async function lockUnusedGrants(tx: Tx, limit: number): Promise<OauthGrant[]> {
  return tx.db
    .selectFrom('oauth_grant')
    .selectAll()
    .where('expires_at', '<=', at(tx.clock.now()))
    .where('key_sealed', 'is not', null)
    .orderBy('expires_at')
    .limit(limit)
    .forUpdate()
    .skipLocked()
    .execute()
}

export async function deleteOauthGrants(db: Db, expiredBefore: Instant, limit: number): Promise<number> {
  const result = await sql`
    delete from oauth_grant where code_hash in (
      select code_hash from oauth_grant where expires_at < ${at(expiredBefore)} and key_sealed is null
      order by expires_at limit ${limit})`.execute(db)
  return Number(result.numAffectedRows ?? 0n)
}
