/** The operator's terms, and who has accepted which version. The newest version counts. */
import { sql } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import type { Db, Tx } from '../platform/database.ts'
import { ACCOUNT_PREFIX, KEY_CHANNEL } from './api-key.ts'

export interface Terms {
  readonly version: number
  readonly body: string
  readonly createdAt: Instant
}

/** undefined: none were ever published. */
export async function findNewestTerms(db: Db): Promise<Terms | undefined> {
  return db
    .selectFrom('terms')
    .select(['version', 'body', 'created_at as createdAt'])
    .orderBy('version', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** Concurrent publications take turns. All servers read again which accounts have accepted. */
export async function insertTerms(tx: Tx, body: string): Promise<Terms> {
  await sql`select pg_advisory_xact_lock(hashtextextended('terms', 0))`.execute(tx.db)
  const version = ((await findNewestTerms(tx.db))?.version ?? 0) + 1
  const createdAt = tx.clock.now()
  await tx.db
    .insertInto('terms')
    .values({ version, body, created_at: toDate(createdAt) })
    .execute()
  await sql`select pg_notify(${KEY_CHANNEL}, ${ACCOUNT_PREFIX} || id) from account`.execute(tx.db)
  return { version, body, createdAt }
}

/** Accepting again keeps the first time. */
export async function insertAcceptance(
  tx: Tx,
  acceptance: { readonly personId: string; readonly version: number; readonly address: string },
): Promise<void> {
  await tx.db
    .insertInto('terms_acceptance')
    .values({
      person_id: acceptance.personId,
      version: acceptance.version,
      address: acceptance.address,
      accepted_at: toDate(tx.clock.now()),
    })
    .onConflict((conflict) => conflict.columns(['person_id', 'version']).doNothing())
    .execute()
}

interface Acceptance {
  readonly version: number
  readonly acceptedAt: Instant
}

/** Returns the newest version that the person accepted. undefined: they accepted none. */
export async function findAcceptance(db: Db, personId: string): Promise<Acceptance | undefined> {
  return db
    .selectFrom('terms_acceptance')
    .select(['version', 'accepted_at as acceptedAt'])
    .where('person_id', '=', personId)
    .orderBy('version', 'desc')
    .limit(1)
    .executeTakeFirst()
}
