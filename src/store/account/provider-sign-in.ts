/** Sign-ins that have begun and will end with an answer of a provider. */
import type { Selectable } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type SignInRow = Selectable<Tables['sign_in']>

export interface NewProviderSignIn {
  readonly stateHash: Buffer
  readonly flowHash: Buffer
  readonly purpose: SignInRow['purpose']
  readonly providerId: string
  readonly sessionId: string | null
  readonly sealed: string
  readonly returnTo: string
  readonly expiresAt: Instant
}

export async function insertProviderSignIn(tx: Tx, one: NewProviderSignIn): Promise<void> {
  await tx.db
    .insertInto('sign_in')
    .values({
      state_hash: one.stateHash,
      flow_hash: one.flowHash,
      purpose: one.purpose,
      provider_id: one.providerId,
      session_id: one.sessionId,
      sealed: one.sealed,
      return_to: one.returnTo,
      created_at: toDate(tx.clock.now()),
      expires_at: toDate(one.expiresAt),
    })
    .execute()
}

/** Only one of several requests with the same answer gets the row of the deletion after it. */
export async function lockProviderSignIn(tx: Tx, stateHash: Buffer): Promise<SignInRow | undefined> {
  return tx.db
    .selectFrom('sign_in')
    .selectAll()
    .where('state_hash', '=', stateHash)
    .where('provider_id', 'is not', null)
    .where('expires_at', '>', at(tx.clock.now()))
    .forUpdate()
    .executeTakeFirst()
}

export async function deleteProviderSignIn(tx: Tx, stateHash: Buffer): Promise<void> {
  await tx.db.deleteFrom('sign_in').where('state_hash', '=', stateHash).execute()
}

export async function deleteExpiredSignIns(db: Db, now: Instant): Promise<void> {
  await db.deleteFrom('sign_in').where('expires_at', '<=', at(now)).execute()
}
