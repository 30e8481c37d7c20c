/** Secrets and registry logins of accounts. Values are sealed by the caller. */
import { sql, type Selectable } from 'kysely'
import { randomId } from '../../base/id.ts'
import { toDate } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type Secret = Selectable<Tables['secret']>
export type RegistryCredential = Selectable<Tables['registry_credential']>

const RENTALS_NAMED = 100

export async function listSecrets(db: Db, accountId: string): Promise<Secret[]> {
  return db
    .selectFrom('secret')
    .selectAll()
    .where('account_id', '=', accountId)
    .orderBy('name')
    .limit(limits.secretsPerAccount)
    .execute()
}

export async function findSecrets(db: Db, accountId: string, names: readonly string[]): Promise<Secret[]> {
  if (names.length === 0) return []
  return (
    db
      .selectFrom('secret')
      .selectAll()
      .where('account_id', '=', accountId)
      .where('name', 'in', names)
      // An order that refers to a secret and its deletion take turns.
      .forShare()
      .execute()
  )
}

/** Creates or replaces a secret. */
export async function putSecret(tx: Tx, accountId: string, name: string, sealed: string): Promise<Secret> {
  const now = toDate(tx.clock.now())
  return tx.db
    .insertInto('secret')
    .values({ account_id: accountId, name, sealed, created_at: now, updated_at: now })
    .onConflict((conflict) => conflict.columns(['account_id', 'name']).doUpdateSet({ sealed, updated_at: now }))
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** False: there is no such secret. */
export async function deleteSecret(tx: Tx, accountId: string, name: string): Promise<boolean> {
  const result = await tx.db
    .deleteFrom('secret')
    .where('account_id', '=', accountId)
    .where('name', '=', name)
    .executeTakeFirst()
  return result.numDeletedRows > 0n
}

/** Lists rentals that exist at a provider, or will, and refer to secrets, by name of the secret. */
export async function listSecretUses(db: Db, accountId: string): Promise<Map<string, number[]>> {
  const { rows } = await sql<{ name: string; rentals: number[] }>`
    select u.name, (array_agg(r.id order by r.id desc))[1:${RENTALS_NAMED}] as rentals
    from rental r, unnest(r.secret_names) as u (name)
    where r.account_id = ${accountId} and r.released_at is null group by u.name`.execute(db)
  return new Map(rows.map(({ name, rentals }) => [name, rentals]))
}

/**
 * Returns what the host of each rental needs: sealed secrets, sealed registry logins, and the account if the rental has
 * weights or a compile cache.
 */
export async function readSecretsOf(db: Db, rentalIds: readonly number[]) {
  if (rentalIds.length === 0) return { secrets: [], logins: [], owners: [] }
  const ids = sql`${[...rentalIds]}::integer[]`
  const secrets = await sql<{ rental_id: number; name: string; sealed: string }>`
    select r.id as rental_id, s.name, s.sealed from rental r
    join secret s on s.account_id = r.account_id and s.name = any (r.secret_names) where r.id = any (${ids})`.execute(
    db,
  )
  type Login = { rental_id: number; image: string | null; server: string; username: string; sealed: string }
  const logins = await sql<Login>`
    select r.id as rental_id, r.spec -> 'image' ->> 'name' as image, c.server, c.username, c.sealed from rental r
    join registry_credential c on c.account_id = r.account_id
      and c.id = r.spec -> 'workload' ->> 'registryCredentialId' where r.id = any (${ids})`.execute(db)
  const owners = await sql<{ rental_id: number; account_id: string }>`
    select id as rental_id, account_id from rental
    where id = any (${ids}) and spec -> 'workload' ?| '{weights,compileCache}'`.execute(db)
  return { secrets: secrets.rows, logins: logins.rows, owners: owners.rows }
}

export async function listRegistryCredentials(db: Db, accountId: string): Promise<RegistryCredential[]> {
  return db
    .selectFrom('registry_credential')
    .selectAll()
    .where('account_id', '=', accountId)
    .orderBy('name')
    .limit(limits.registryCredentialsPerAccount)
    .execute()
}

/** undefined: the account has one with this name already. */
export async function insertRegistryCredential(
  tx: Tx,
  accountId: string,
  login: { readonly name: string; readonly server: string; readonly username: string; readonly sealed: string },
): Promise<RegistryCredential | undefined> {
  return tx.db
    .insertInto('registry_credential')
    .values({ id: randomId('reg'), account_id: accountId, ...login, created_at: toDate(tx.clock.now()) })
    .onConflict((conflict) => conflict.columns(['account_id', 'name']).doNothing())
    .returningAll()
    .executeTakeFirst()
}

export async function findRegistryCredential(
  db: Db,
  accountId: string,
  id: string,
): Promise<RegistryCredential | undefined> {
  return db
    .selectFrom('registry_credential')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .forShare()
    .executeTakeFirst()
}

/** False: there is no such login. */
export async function deleteRegistryCredential(tx: Tx, accountId: string, id: string): Promise<boolean> {
  const result = await tx.db
    .deleteFrom('registry_credential')
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
  return result.numDeletedRows > 0n
}

/** Lists the rentals that pull images with this login, or will. */
export async function listRegistryUses(db: Db, accountId: string, id: string): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select id from rental where account_id = ${accountId} and released_at is null
      and spec -> 'workload' ->> 'registryCredentialId' = ${id} order by id desc limit ${RENTALS_NAMED}`.execute(db)
  return rows.map((row) => row.id)
}
