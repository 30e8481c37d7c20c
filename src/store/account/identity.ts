/** Who people are at providers. The issuer and subject count; the address may change. */
import { sql, type Selectable } from 'kysely'
import { randomId } from '../../base/id.ts'
import { toDate } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type Identity = Selectable<Tables['identity']>

export interface ListedIdentity extends Identity {
  readonly providerName: string
  readonly kind: 'oidc' | 'github'
}

export async function listIdentities(db: Db, personId: string): Promise<ListedIdentity[]> {
  return db
    .selectFrom('identity as i')
    .innerJoin('identity_provider as p', 'p.id', 'i.provider_id')
    .selectAll('i')
    .select(['p.name as providerName', 'p.kind'])
    .where('i.person_id', '=', personId)
    .orderBy('i.created_at')
    .orderBy('i.id')
    .limit(limits.plainListRows)
    .execute()
}

export async function findIdentity(db: Db, issuer: string, subject: string): Promise<Identity | undefined> {
  return db
    .selectFrom('identity')
    .selectAll()
    .where('issuer', '=', issuer)
    .where('subject', '=', subject)
    .executeTakeFirst()
}

/** Whether the person is somebody at the issuer already. */
export async function hasIdentityAt(db: Db, personId: string, issuer: string): Promise<boolean> {
  const row = await db
    .selectFrom('identity')
    .select('id')
    .where('person_id', '=', personId)
    .where('issuer', '=', issuer)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** Whether an owner of the account who has agreed to belong to it has signed in at the provider. */
export async function hasOwnerAt(db: Db, accountId: string, providerId: string): Promise<boolean> {
  const { rows } = await sql`
    select 1 from identity i
    join identity_provider p on p.id = ${providerId}
    join member m on m.person_id = i.person_id and m.account_id = ${accountId}
    join person one on one.id = m.person_id and one.disabled_at is null
    where m.role = 'owner' and m.accepted_at is not null and p.succeeded_at is not null
      and (i.provider_id = p.id or rtrim(i.issuer, '/') = rtrim(p.issuer, '/'))
    limit 1`.execute(db)
  return rows.length > 0
}

export type NewIdentity = Pick<Identity, 'provider_id' | 'person_id' | 'issuer' | 'subject' | 'email'>

/** False: somebody is connected already. */
export async function insertIdentity(tx: Tx, identity: NewIdentity): Promise<boolean> {
  const now = toDate(tx.clock.now())
  const { numInsertedOrUpdatedRows } = await tx.db
    .insertInto('identity')
    .values({ ...identity, id: randomId('idn'), created_at: now, last_used_at: now })
    .onConflict((conflict) => conflict.columns(['issuer', 'subject']).doNothing())
    .executeTakeFirst()
  return (numInsertedOrUpdatedRows ?? 0n) > 0n
}

export async function noteIdentityUsed(tx: Tx, id: string, email: string | null): Promise<void> {
  await tx.db
    .updateTable('identity')
    .set({ last_used_at: toDate(tx.clock.now()), ...(email === null ? {} : { email }) })
    .where('id', '=', id)
    .execute()
}

/** Returns the identity that was deleted. */
export async function deleteIdentity(tx: Tx, personId: string, id: string): Promise<Identity | undefined> {
  return tx.db
    .deleteFrom('identity')
    .where('person_id', '=', personId)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()
}

export async function hasPasskey(db: Db, personId: string): Promise<boolean> {
  const row = await db.selectFrom('passkey').select('id').where('person_id', '=', personId).limit(1).executeTakeFirst()
  return row !== undefined
}
