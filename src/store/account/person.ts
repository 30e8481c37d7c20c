/** People: what they proved about themselves, the accounts they belong to, and the keys that their sessions act with. */
import { sql, type Selectable } from 'kysely'
import type { NewApiKey } from '../../base/api-key.ts'
import { toDate, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { Role } from '../../contract/account.ts'
import type { Scope } from '../../contract/endpoint.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'
import { notifyAccountKeys } from './api-key.ts'

export type Person = Selectable<Tables['person']>

export async function findPerson(db: Db, id: string): Promise<Person | undefined> {
  return db.selectFrom('person').selectAll().where('id', '=', id).executeTakeFirst()
}

/** `address` in any case. */
export async function findPersonByEmail(db: Db, address: string): Promise<Person | undefined> {
  return db.selectFrom('person').selectAll().where('email', '=', address.toLowerCase()).executeTakeFirst()
}

/** The person has proved the address. Repeated proofs keep the first time. */
export async function proveAddress(tx: Tx, personId: string): Promise<void> {
  await tx.db
    .updateTable('person')
    .set({ email_verified_at: toDate(tx.clock.now()) })
    .where('id', '=', personId)
    .where('email_verified_at', 'is', null)
    .execute()
}

/** An account that a person belongs to. */
export interface Membership {
  readonly accountId: string
  readonly accountName: string
  readonly role: Role
  readonly isSupplier: boolean
  readonly requiresFactor: boolean
  readonly ssoProviderId: string | null
  readonly ssoProviderName: string | null
  readonly suspendedAt: Instant | null
  /** When the person was added. */
  readonly createdAt: Instant
}

function selectMemberships(db: Db, personId: string) {
  return db
    .selectFrom('member as m')
    .innerJoin('account as a', 'a.id', 'm.account_id')
    .leftJoin('identity_provider as i', 'i.id', 'a.sso_provider_id')
    .select('i.name as ssoProviderName')
    .select(['a.id as accountId', 'a.name as accountName', 'm.role', 'a.requires_factor as requiresFactor'])
    .select(['a.sso_provider_id as ssoProviderId', 'a.suspended_at as suspendedAt', 'm.created_at as createdAt'])
    .select(sql<boolean>`a.platform_fee_bp is not null`.as('isSupplier'))
    .where('m.person_id', '=', personId)
}

/** Lists the accounts that the person has accepted, oldest first. */
export async function listMemberships(db: Db, personId: string): Promise<Membership[]> {
  return selectMemberships(db, personId)
    .where('m.accepted_at', 'is not', null)
    .orderBy('m.created_at')
    .orderBy('a.id')
    .limit(limits.plainListRows)
    .execute()
}

/** The accepted membership in whose account the person's sessions acted last; one that was never used comes last. */
export async function findLastMembership(db: Db, personId: string): Promise<Membership | undefined> {
  return selectMemberships(db, personId)
    .leftJoin('api_key as k', (join) =>
      join
        .onRef('k.account_id', '=', 'm.account_id')
        .onRef('k.person_id', '=', 'm.person_id')
        .on('k.kind', '=', 'person')
        .on('k.revoked_at', 'is', null),
    )
    .where('m.accepted_at', 'is not', null)
    .orderBy('k.last_used_at', (order) => order.desc().nullsLast())
    .orderBy('m.created_at')
    .limit(1)
    .executeTakeFirst()
}

/** An accepted membership. */
export async function findMembership(db: Db, personId: string, accountId: string): Promise<Membership | undefined> {
  return selectMemberships(db, personId)
    .where('m.accepted_at', 'is not', null)
    .where('m.account_id', '=', accountId)
    .executeTakeFirst()
}

/** Lists the accounts to which others have added the person, who has not agreed. */
export async function listOfferedMemberships(db: Db, personId: string): Promise<Membership[]> {
  return selectMemberships(db, personId)
    .where('m.accepted_at', 'is', null)
    .orderBy('m.created_at')
    .orderBy('a.id')
    .limit(limits.plainListRows)
    .execute()
}

/** The person agrees to belong to the account. False: they are no member, or have agreed before. */
export async function acceptMembership(tx: Tx, accountId: string, personId: string): Promise<boolean> {
  const { numUpdatedRows } = await tx.db
    .updateTable('member')
    .set({ accepted_at: toDate(tx.clock.now()) })
    .where('account_id', '=', accountId)
    .where('person_id', '=', personId)
    .where('accepted_at', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

const PERSON_KEY_NAME = 'Console'

/** Returns the id of the key that sessions of the member act with; creates it with `material` at its first use. */
export async function upsertPersonKey(
  tx: Tx,
  member: { readonly accountId: string; readonly personId: string; readonly scopes: readonly Scope[] },
  material: NewApiKey,
): Promise<string> {
  const row = await tx.db
    .insertInto('api_key')
    .values({
      public_id: material.publicId,
      account_id: member.accountId,
      person_id: member.personId,
      name: PERSON_KEY_NAME,
      last4: material.last4,
      secret_hash: material.secretHash,
      scopes: [...member.scopes],
      kind: 'person',
      created_at: toDate(tx.clock.now()),
    })
    .onConflict((conflict) =>
      conflict
        .columns(['account_id', 'person_id'])
        .where('kind', '=', 'person')
        .where('revoked_at', 'is', null)
        .doUpdateSet({ scopes: [...member.scopes] }),
    )
    .returning(['public_id', sql<boolean>`xmax <> 0`.as('existed')])
    .executeTakeFirstOrThrow()
  // The scopes of a cached key may have changed.
  if (row.existed) await notifyAccountKeys(tx, member.accountId)
  return row.public_id
}

/** The account of a key. */
export async function findKeyAccount(db: Db, publicId: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('api_key')
    .select('account_id as accountId')
    .where('public_id', '=', publicId)
    .executeTakeFirst()
  return row?.accountId
}

/** Changes what sessions of the member may do, if they have a key. */
export async function setPersonKeyScopes(
  tx: Tx,
  { accountId, personId }: { readonly accountId: string; readonly personId: string },
  scopes: readonly Scope[],
): Promise<void> {
  await tx.db
    .updateTable('api_key')
    .set({ scopes: [...scopes] })
    .where('account_id', '=', accountId)
    .where('person_id', '=', personId)
    .where('kind', '=', 'person')
    .where('revoked_at', 'is', null)
    .execute()
}

/** Whether a live key of the person has the scope `operator`. */
export async function hasOperatorKey(tx: Tx, personId: string): Promise<boolean> {
  const { rows } = await sql`
    select 1 from api_key k
    join member m on m.account_id = k.account_id and m.person_id = k.person_id
    join person p on p.id = k.person_id and p.disabled_at is null
    where k.person_id = ${personId} and 'operator' = any (k.scopes) and m.role <> 'viewer'
      and k.revoked_at is null and (k.expires_at is null or k.expires_at > ${at(tx.clock.now())})
    limit 1`.execute(tx.db)
  return rows.length > 0
}

/** The accounts whose cached keys of the person must be read again. */
export async function listAccountsOf(db: Db, personId: string): Promise<string[]> {
  const rows = await db.selectFrom('member').select('account_id').where('person_id', '=', personId).execute()
  return rows.map((row) => row.account_id)
}

/** null: the person may sign in again. */
export async function setDisabled(tx: Tx, personId: string, disabledAt: Instant | null): Promise<void> {
  await tx.db
    .updateTable('person')
    .set({ disabled_at: disabledAt === null ? null : toDate(disabledAt) })
    .where('id', '=', personId)
    .execute()
  for (const accountId of await listAccountsOf(tx.db, personId)) await notifyAccountKeys(tx, accountId)
}
