/** Console sessions. Only hashes of tokens are stored. */
import { sql } from 'kysely'
import { at, type Db, type Tx } from '../platform/database.ts'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'

/** How the person, or the holder of a key, last proved who they are. */
export type SessionMethod = 'key' | 'code' | 'provider' | 'passkey'

export interface ConsoleSession {
  /** Its name in lists; it opens nothing. */
  readonly id: string
  /** The key that it acts with. null: the person has no account. */
  readonly keyId: string | null
  /** null: somebody signed in with a key. */
  readonly personId: string | null
  readonly method: SessionMethod
  readonly providerId: string | null
  readonly authAt: Instant
  /** The last time that a second factor was shown. null: never. */
  readonly factorAt: Instant | null
  readonly seenAt: Instant | null
  readonly createdAt: Instant
  readonly expiresAt: Instant
  readonly address: string | null
  readonly browser: string | null
  readonly isHostCookie: boolean
  /**
   * The account whose own provider signed the person in: its owner decides who that provider says they are, so the session
   * opens nothing else. null: no such limit, also where the operator lets the provider decide about the person's domain,
   * and once the person has confirmed in another way.
   */
  readonly confinedTo: string | null
}

export interface NewConsoleSession {
  readonly tokenHash: Buffer
  readonly keyId: string | null
  readonly personId: string | null
  readonly method: SessionMethod
  readonly providerId: string | null
  readonly factorAt: Instant | null
  readonly expiresAt: Instant
  readonly address: string
  readonly browser: string | null
  readonly isHostCookie: boolean
}

/** Its owner: sessions of one owner are counted together. */
export type SessionOwner = { readonly personId: string } | { readonly keyId: string }

/** Locks the owner, so that concurrent sign-ins take turns and `keepNewestConsoleSessions` counts all of them. */
export async function insertConsoleSession(tx: Tx, session: NewConsoleSession): Promise<void> {
  const { keyId, personId } = session
  if (personId !== null)
    await tx.db.selectFrom('person').select('id').where('id', '=', personId).forNoKeyUpdate().execute()
  else if (keyId !== null)
    await tx.db.selectFrom('api_key').select('public_id').where('public_id', '=', keyId).forNoKeyUpdate().execute()
  const now = toDate(tx.clock.now())
  await tx.db
    .insertInto('console_session')
    .values({
      token_hash: session.tokenHash,
      api_key_id: keyId,
      person_id: personId,
      method: session.method,
      provider_id: session.providerId,
      auth_at: now,
      factor_at: toDateOrNull(session.factorAt),
      seen_at: now,
      address: session.address,
      browser: session.browser,
      is_host_cookie: session.isHostCookie,
      created_at: now,
      expires_at: toDate(session.expiresAt),
    })
    .execute()
}

export async function keepNewestConsoleSessions(tx: Tx, owner: SessionOwner, most: number): Promise<void> {
  await tx.db
    .deleteFrom('console_session')
    .where('token_hash', 'in', (e) =>
      e
        .selectFrom('console_session')
        .select('token_hash')
        .where((w) =>
          'personId' in owner
            ? w('person_id', '=', owner.personId)
            : w.and([w('api_key_id', '=', owner.keyId), w('person_id', 'is', null)]),
        )
        .orderBy('created_at', 'desc')
        .orderBy('token_hash')
        .offset(most),
    )
    .execute()
}

export async function deleteExpiredConsoleSessions(tx: Tx): Promise<void> {
  await tx.db.deleteFrom('console_session').where('expires_at', '<=', at(tx.clock.now())).execute()
}

const confinement = sql<string | null>`
  case when s.method = 'provider' and not split_part(p.email, '@', 2) = any (i.domains) then i.account_id end`

function selectSessions(db: Db) {
  return db
    .selectFrom('console_session as s')
    .leftJoin('identity_provider as i', 'i.id', 's.provider_id')
    .leftJoin('person as p', 'p.id', 's.person_id')
    .select(['s.id', 's.method', 's.address', 's.browser', 's.api_key_id as keyId', 's.person_id as personId'])
    .select(['s.provider_id as providerId', 's.factor_at as factorAt', 's.seen_at as seenAt'])
    .select(['s.created_at as createdAt', 's.expires_at as expiresAt', 's.is_host_cookie as isHostCookie'])
    .select((e) => e.fn.coalesce('s.auth_at', 's.created_at').as('authAt'))
    .select(confinement.as('confinedTo'))
}

/** Returns a live session. */
export async function findConsoleSession(db: Db, tokenHash: Buffer, now: Instant): Promise<ConsoleSession | undefined> {
  return selectSessions(db).where('s.token_hash', '=', tokenHash).where('s.expires_at', '>', at(now)).executeTakeFirst()
}

/** Lists the live sessions of a person, newest first. */
export async function listConsoleSessions(db: Db, personId: string, now: Instant): Promise<ConsoleSession[]> {
  return selectSessions(db)
    .where('s.person_id', '=', personId)
    .where('s.expires_at', '>', at(now))
    .orderBy('s.created_at', 'desc')
    .orderBy('s.id')
    .execute()
}

/** Returns a live session by its name. */
export async function findSessionById(db: Db, id: string, now: Instant): Promise<ConsoleSession | undefined> {
  return selectSessions(db).where('s.id', '=', id).where('s.expires_at', '>', at(now)).executeTakeFirst()
}

/** The session gets another token and continues: a renewed sign-in of the same person. */
export async function renewConsoleSession(
  tx: Tx,
  id: string,
  renewal: { tokenHash: Buffer; method: SessionMethod; providerId: string | null; factorAt: Instant | null },
): Promise<void> {
  const now = toDate(tx.clock.now())
  await tx.db
    .updateTable('console_session')
    .set({
      token_hash: renewal.tokenHash,
      method: renewal.method,
      auth_at: now,
      seen_at: now,
      // Earlier proofs still count for an account that requires them.
      ...(renewal.providerId === null ? {} : { provider_id: renewal.providerId }),
      ...(renewal.factorAt === null ? {} : { factor_at: toDate(renewal.factorAt) }),
    })
    .where('id', '=', id)
    .execute()
}

/** The session acts with this key from now on. */
export async function setSessionKey(tx: Tx, id: string, keyId: string | null): Promise<void> {
  await tx.db.updateTable('console_session').set({ api_key_id: keyId }).where('id', '=', id).execute()
}

export async function noteSessionSeen(db: Db, id: string, now: Instant): Promise<void> {
  await db
    .updateTable('console_session')
    .set({ seen_at: toDate(now) })
    .where('id', '=', id)
    .execute()
}

export async function deleteConsoleSession(tx: Tx, tokenHash: Buffer): Promise<void> {
  await tx.db.deleteFrom('console_session').where('token_hash', '=', tokenHash).execute()
}

export async function deleteSessionById(tx: Tx, id: string): Promise<void> {
  await tx.db.deleteFrom('console_session').where('id', '=', id).execute()
}

/** Ends sessions of a person: one, all others than one, or all. Returns how many. */
export async function deleteSessionsOf(
  tx: Tx,
  personId: string,
  which: { readonly id: string } | { readonly except: string } | 'all',
): Promise<number> {
  const all = tx.db.deleteFrom('console_session').where('person_id', '=', personId)
  const some =
    which === 'all' ? all : 'id' in which ? all.where('id', '=', which.id) : all.where('id', '<>', which.except)
  const { numDeletedRows } = await some.executeTakeFirst()
  return Number(numDeletedRows)
}

/** Sessions of a person that act in an account go on without it. */
export async function leaveAccountInSessions(tx: Tx, accountId: string, personId: string): Promise<void> {
  await sql`
    update console_session s set api_key_id = null from api_key k
    where k.public_id = s.api_key_id and k.account_id = ${accountId} and s.person_id = ${personId}`.execute(tx.db)
}
