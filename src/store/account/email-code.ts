/** Sign-in codes sent by email. A newer code to an address ends the earlier ones. */
import type { Selectable } from 'kysely'
import { sql } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type EmailCode = Selectable<Tables['email_code']>

export interface NewEmailCode {
  readonly id: string
  readonly address: string
  /** The network of the browser that asks. */
  readonly network: string
  readonly flowHash: Buffer
  readonly codeHash: Buffer
  readonly purpose: EmailCode['purpose']
  readonly identitySealed: string | null
  readonly expiresAt: Instant
}

/** Serializes requests for codes to one address. */
export async function lockAddress(tx: Tx, address: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`email code ${address}`}, 0))`.execute(tx.db)
}

export async function countEmailCodes(tx: Tx, address: string, since: Instant): Promise<number> {
  const row = await tx.db
    .selectFrom('email_code')
    .select(sql<number>`count(*)::integer`.as('codes'))
    .where('address', '=', address)
    .where('created_at', '>', at(since))
    .executeTakeFirstOrThrow()
  return row.codes
}

export async function insertEmailCode(tx: Tx, code: NewEmailCode): Promise<void> {
  const now = toDate(tx.clock.now())
  await tx.db
    .updateTable('email_code')
    .set({ ended_at: now })
    .where('address', '=', code.address)
    .where('ended_at', 'is', null)
    .execute()
  await tx.db
    .insertInto('email_code')
    .values({
      id: code.id,
      address: code.address,
      network: code.network,
      flow_hash: code.flowHash,
      code_hash: code.codeHash,
      purpose: code.purpose,
      identity_sealed: code.identitySealed,
      created_at: now,
      expires_at: toDate(code.expiresAt),
    })
    .execute()
}

/**
 * Returns the code that this browser requested last, if it is still valid. The row is locked, so that concurrent tries
 * are counted one by one.
 */
export async function lockEmailCode(
  tx: Tx,
  flowHash: Buffer,
  purpose: EmailCode['purpose'],
): Promise<EmailCode | undefined> {
  return tx.db
    .selectFrom('email_code')
    .selectAll()
    .where('flow_hash', '=', flowHash)
    .where('purpose', '=', purpose)
    .where('ended_at', 'is', null)
    .where('expires_at', '>', at(tx.clock.now()))
    .orderBy('created_at', 'desc')
    .limit(1)
    .forUpdate()
    .executeTakeFirst()
}

/** Counts a wrong try. The last allowed one ends the code. */
export async function countWrongTry(tx: Tx, id: string, maxTries: number): Promise<void> {
  await tx.db
    .updateTable('email_code')
    .set({
      wrong_tries: sql`wrong_tries + 1`,
      ended_at: sql`case when wrong_tries + 1 >= ${maxTries} then ${toDate(tx.clock.now())}::timestamptz end`,
    })
    .where('id', '=', id)
    .execute()
}

export async function endEmailCode(tx: Tx, id: string): Promise<void> {
  await tx.db
    .updateTable('email_code')
    .set({ ended_at: toDate(tx.clock.now()) })
    .where('id', '=', id)
    .execute()
}

export async function deleteEmailCodes(db: Db, before: Instant, limit: number): Promise<number> {
  const result = await sql`
    delete from email_code where id in (
      select id from email_code where created_at < ${at(before)} order by created_at limit ${limit})`.execute(db)
  return Number(result.numAffectedRows ?? 0n)
}
