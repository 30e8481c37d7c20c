/** Passkeys of people, the challenges that one of them will answer, and the codes that replace a lost one. */
import { sql, type Selectable } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type Passkey = Selectable<Tables['passkey']>

export type NewPasskey = Pick<
  Passkey,
  'id' | 'person_id' | 'credential_id' | 'public_key' | 'counter' | 'transports' | 'name' | 'is_synced'
>

/** False: the credential is registered already, for whomever. */
export async function insertPasskey(tx: Tx, passkey: NewPasskey): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx.db
    .insertInto('passkey')
    .values({ ...passkey, transports: [...passkey.transports], created_at: toDate(tx.clock.now()) })
    .onConflict((conflict) => conflict.column('credential_id').doNothing())
    .executeTakeFirst()
  return (numInsertedOrUpdatedRows ?? 0n) > 0n
}

export async function listPasskeys(db: Db, personId: string): Promise<Passkey[]> {
  return db
    .selectFrom('passkey')
    .selectAll()
    .where('person_id', '=', personId)
    .orderBy('created_at')
    .orderBy('id')
    .execute()
}

export async function findPasskeyByCredential(db: Db, credentialId: string): Promise<Passkey | undefined> {
  return db.selectFrom('passkey').selectAll().where('credential_id', '=', credentialId).executeTakeFirst()
}

/** False: it was removed, or another answer of it had this counter or a higher one. Many authenticators always count 0. */
export async function notePasskeyUse(
  tx: Tx,
  id: string,
  use: { readonly counter: bigint; readonly isSynced: boolean },
): Promise<boolean> {
  const { numUpdatedRows } = await tx.db
    .updateTable('passkey')
    .set({ counter: use.counter, is_synced: use.isSynced, last_used_at: toDate(tx.clock.now()) })
    .where('id', '=', id)
    .where((e) => e.or([e('counter', '<', use.counter), e.and([e('counter', '=', 0n), e.lit(use.counter === 0n)])]))
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

export async function renamePasskey(tx: Tx, personId: string, id: string, name: string): Promise<boolean> {
  const { numUpdatedRows } = await tx.db
    .updateTable('passkey')
    .set({ name })
    .where('id', '=', id)
    .where('person_id', '=', personId)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

export async function deletePasskey(tx: Tx, personId: string, id: string): Promise<boolean> {
  const { numDeletedRows } = await tx.db
    .deleteFrom('passkey')
    .where('id', '=', id)
    .where('person_id', '=', personId)
    .executeTakeFirst()
  return numDeletedRows > 0n
}

/** Deletes all passkeys and recovery codes of the person. Returns the number of passkeys. */
export async function deleteFactors(tx: Tx, personId: string): Promise<number> {
  await tx.db.deleteFrom('recovery_code').where('person_id', '=', personId).execute()
  const { numDeletedRows } = await tx.db.deleteFrom('passkey').where('person_id', '=', personId).executeTakeFirst()
  return Number(numDeletedRows)
}

/** Serializes changes of what a person can show. */
export async function lockFactors(tx: Tx, personId: string): Promise<void> {
  await tx.db.selectFrom('person').select('id').where('id', '=', personId).forNoKeyUpdate().execute()
}

/** The new codes end the ones before. */
export async function replaceRecoveryCodes(tx: Tx, personId: string, hashes: readonly Buffer[]): Promise<void> {
  await tx.db.deleteFrom('recovery_code').where('person_id', '=', personId).execute()
  if (hashes.length === 0) return
  const createdAt = toDate(tx.clock.now())
  await tx.db
    .insertInto('recovery_code')
    .values(hashes.map((hash) => ({ person_id: personId, code_hash: hash, created_at: createdAt })))
    .execute()
}

/** False: there is no such code, or it was used. */
export async function useRecoveryCode(tx: Tx, personId: string, hash: Buffer): Promise<boolean> {
  const { numUpdatedRows } = await tx.db
    .updateTable('recovery_code')
    .set({ used_at: toDate(tx.clock.now()) })
    .where('person_id', '=', personId)
    .where('code_hash', '=', hash)
    .where('used_at', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** How many codes are unused, and since when there are these. */
export async function countRecoveryCodes(
  db: Db,
  personId: string,
): Promise<{ readonly unused: number; readonly createdAt: Instant | null }> {
  return db
    .selectFrom('recovery_code')
    .select(sql<number>`count(*) filter (where used_at is null)::integer`.as('unused'))
    .select((e) => e.fn.max('created_at').as('createdAt'))
    .where('person_id', '=', personId)
    .executeTakeFirstOrThrow()
}

export interface NewChallenge {
  readonly challengeHash: Buffer
  /** The hash of the cookie of the browser that asked. */
  readonly flowHash: Buffer
  readonly purpose: 'passkey' | 'add-passkey'
  /** The session that it adds to. null: somebody signs in. */
  readonly sessionId: string | null
  readonly expiresAt: Instant
}

export async function insertChallenge(tx: Tx, challenge: NewChallenge): Promise<void> {
  await tx.db
    .insertInto('sign_in')
    .values({
      state_hash: challenge.challengeHash,
      flow_hash: challenge.flowHash,
      purpose: challenge.purpose,
      session_id: challenge.sessionId,
      created_at: toDate(tx.clock.now()),
      expires_at: toDate(challenge.expiresAt),
    })
    .execute()
}

/** Ends the challenge. False: there is none that this browser may answer. */
export async function takeChallenge(tx: Tx, challenge: Omit<NewChallenge, 'expiresAt'>): Promise<boolean> {
  const { numDeletedRows } = await tx.db
    .deleteFrom('sign_in')
    .where('state_hash', '=', challenge.challengeHash)
    .where('flow_hash', '=', challenge.flowHash)
    .where('purpose', '=', challenge.purpose)
    .where('session_id', 'is not distinct from', challenge.sessionId)
    .where('expires_at', '>', at(tx.clock.now()))
    .executeTakeFirst()
  return numDeletedRows > 0n
}
