/** Providers at which people sign in: the operator's, and those of accounts. */
import { sql, type Selectable, type Updateable } from 'kysely'
import { toDate } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'
import { notifyAccountKeys } from './api-key.ts'

export type IdentityProvider = Selectable<Tables['identity_provider']>

/** With the number of people who sign in there. */
export interface ListedProvider extends IdentityProvider {
  readonly people: number
}

function selectListed(db: Db) {
  return db
    .selectFrom('identity_provider as p')
    .selectAll('p')
    .select(sql<number>`(select count(*)::integer from identity i where i.provider_id = p.id)`.as('people'))
}

/** Lists those that everybody may use and that are not disabled. */
export async function listPublicProviders(db: Db): Promise<IdentityProvider[]> {
  return db
    .selectFrom('identity_provider')
    .selectAll()
    .where('account_id', 'is', null)
    .where('disabled_at', 'is', null)
    .orderBy('created_at')
    .orderBy('id')
    .limit(limits.identityProviders)
    .execute()
}

/** The provider at which members of the account must sign in. null: any way. */
export async function findRequiredProviderId(db: Db, accountId: string): Promise<string | null> {
  const account = await db
    .selectFrom('account')
    .select('sso_provider_id')
    .where('id', '=', accountId)
    .executeTakeFirst()
  return account?.sso_provider_id ?? null
}

/** Lists the providers at which members of an account may sign in: the account's own comes first. */
export async function listProvidersOfAccount(db: Db, accountId: string): Promise<IdentityProvider[]> {
  const accountProvider = await findAccountProvider(db, accountId)
  const all = await listPublicProviders(db)
  return accountProvider === undefined || accountProvider.disabled_at !== null ? all : [accountProvider, ...all]
}

/** Lists the operator's, then those of accounts. */
export async function listAllProviders(db: Db): Promise<ListedProvider[]> {
  return selectListed(db)
    .orderBy(sql`p.account_id is not null`)
    .orderBy('p.created_at')
    .orderBy('p.id')
    .limit(limits.plainListRows)
    .execute()
}

export async function countPublicProviders(tx: Tx): Promise<number> {
  const row = await tx.db
    .selectFrom('identity_provider')
    .select(sql<number>`count(*)::integer`.as('providers'))
    .where('account_id', 'is', null)
    .executeTakeFirstOrThrow()
  return row.providers
}

export async function findProvider(db: Db, id: string): Promise<ListedProvider | undefined> {
  return selectListed(db).where('p.id', '=', id).executeTakeFirst()
}

/** An account has one provider at most. */
export async function findAccountProvider(db: Db, accountId: string): Promise<ListedProvider | undefined> {
  return selectListed(db).where('p.account_id', '=', accountId).executeTakeFirst()
}

export type NewIdentityProvider = Pick<
  IdentityProvider,
  'id' | 'account_id' | 'kind' | 'name' | 'issuer' | 'client_id' | 'client_secret_sealed' | 'required_domain'
> & { readonly domains?: string[] | undefined }

/** False: the id is in use. */
export async function insertProvider(tx: Tx, { domains = [], ...provider }: NewIdentityProvider): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx.db
    .insertInto('identity_provider')
    .values({ ...provider, domains, created_at: toDate(tx.clock.now()) })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  return (numInsertedOrUpdatedRows ?? 0n) > 0n
}

export async function updateProvider(
  tx: Tx,
  id: string,
  change: Omit<Updateable<Tables['identity_provider']>, 'id' | 'account_id' | 'created_at'>,
): Promise<void> {
  if (Object.keys(change).length > 0)
    await tx.db.updateTable('identity_provider').set(change).where('id', '=', id).execute()
}

/** A sign-in or test has succeeded. */
export async function noteProviderSuccess(tx: Tx, id: string): Promise<void> {
  await updateProvider(tx, id, { succeeded_at: toDate(tx.clock.now()), failed_at: null, last_error: null })
}

const MAX_ERROR_CHARS = 500

export async function noteProviderFailure(tx: Tx, id: string, problem: string): Promise<void> {
  await updateProvider(tx, id, {
    failed_at: toDate(tx.clock.now()),
    last_error: problem.slice(0, MAX_ERROR_CHARS),
  })
}

/** The provider has answered again. */
export async function clearProviderFailure(tx: Tx, id: string): Promise<void> {
  await tx.db
    .updateTable('identity_provider')
    .set({ failed_at: null, last_error: null })
    .where('id', '=', id)
    .where('failed_at', 'is not', null)
    .execute()
}

/** Its identities, and the sessions that began there, end with it. */
export async function deleteProvider(tx: Tx, id: string): Promise<void> {
  await releaseRequirement(tx, id)
  await tx.db.deleteFrom('identity_provider').where('id', '=', id).execute()
}

/** People must connect it again, and its sessions and begun sign-ins end. */
export async function endProviderUse(tx: Tx, id: string): Promise<void> {
  await tx.db.deleteFrom('identity').where('provider_id', '=', id).execute()
  await tx.db.deleteFrom('console_session').where('provider_id', '=', id).execute()
  await tx.db.deleteFrom('sign_in').where('provider_id', '=', id).execute()
}

/** The only account that a session of the person opens after a sign-in there. null: there is no such limit. */
export async function findConfinement(db: Db, id: string, personId: string): Promise<string | null> {
  const row = await db
    .selectFrom('identity_provider as i')
    .innerJoin('person as p', (join) => join.on('p.id', '=', personId))
    .select('i.account_id')
    .where('i.id', '=', id)
    .where(sql<boolean>`not split_part(p.email, '@', 2) = any (i.domains)`)
    .executeTakeFirst()
  return row?.account_id ?? null
}

export async function isProviderRequired(db: Db, id: string): Promise<boolean> {
  const row = await db.selectFrom('account').select('id').where('sso_provider_id', '=', id).limit(1).executeTakeFirst()
  return row !== undefined
}

/** null: members sign in in any way. */
export async function setRequiredProvider(tx: Tx, accountId: string, providerId: string | null): Promise<void> {
  await tx.db.updateTable('account').set({ sso_provider_id: providerId }).where('id', '=', accountId).execute()
  await notifyAccountKeys(tx, accountId)
}

async function releaseRequirement(tx: Tx, providerId: string): Promise<void> {
  const accounts = await tx.db
    .updateTable('account')
    .set({ sso_provider_id: null })
    .where('sso_provider_id', '=', providerId)
    .returning('id')
    .execute()
  for (const { id } of accounts) await notifyAccountKeys(tx, id)
}
