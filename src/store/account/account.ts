/** Accounts, their members and their members' roles. */
import { sql, type Selectable } from 'kysely'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import { randomId } from '../../base/id.ts'
import { limits, type Quota } from '../../base/limits.ts'
import type { Role } from '../../contract/account.ts'
import type { Standing } from '../../domain/balance.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import { readStanding, readStandings } from '../ledger/standing.ts'
import type { Tables } from '../platform/tables.ts'

export type Account = Selectable<Tables['account']>
export type Person = Selectable<Tables['person']>

export interface Member {
  readonly id: string
  readonly email: string
  readonly name: string | null
  readonly picture: string | null
  readonly role: Role
  /** null: no email is sent to the member about this account. */
  readonly mail_confirmed_at: Instant | null
  /** null: others added them, and they have not agreed. */
  readonly accepted_at: Instant | null
  readonly has_passkey: boolean
  readonly created_at: Instant
}

/** Returns undefined, and changes nothing, if the id is taken. */
export async function insertAccount(
  tx: Tx,
  account: { id: string; name: string; platformFeeBp: number | null },
): Promise<Account | undefined> {
  return tx.db
    .insertInto('account')
    .values({
      id: account.id,
      name: account.name,
      platform_fee_bp: account.platformFeeBp,
      created_at: toDate(tx.clock.now()),
    })
    .onConflict((conflict) => conflict.doNothing())
    .returningAll()
    .executeTakeFirst()
}

export async function findAccount(db: Db, id: string): Promise<Account | undefined> {
  return db.selectFrom('account').selectAll().where('id', '=', id).executeTakeFirst()
}

/**
 * Serializes checks against a quota or the number of owners. `no key update` does not block inserts that only refer to
 * the account.
 */
export async function lockAccount(tx: Tx, id: string): Promise<Account | undefined> {
  return tx.db.selectFrom('account').selectAll().where('id', '=', id).forNoKeyUpdate().executeTakeFirst()
}

export interface AccountChange {
  readonly quota?: Partial<Quota>
  readonly platformFeeBp?: number | null
  /** null: in good standing. */
  readonly suspendedAt?: Instant | null
  readonly keepsBodies?: boolean | undefined
  readonly storesResponses?: boolean | undefined
  readonly requiresFactor?: boolean | undefined
}

export async function updateAccount(tx: Tx, id: string, change: AccountChange): Promise<void> {
  await tx.db
    .updateTable('account')
    .set({
      ...(change.quota === undefined ? {} : { quota: JSON.stringify(change.quota) }),
      ...(change.platformFeeBp === undefined ? {} : { platform_fee_bp: change.platformFeeBp }),
      ...(change.suspendedAt === undefined ? {} : { suspended_at: toDateOrNull(change.suspendedAt) }),
      ...(change.keepsBodies === undefined ? {} : { keeps_bodies: change.keepsBodies }),
      ...(change.storesResponses === undefined ? {} : { stores_responses: change.storesResponses }),
      ...(change.requiresFactor === undefined ? {} : { requires_factor: change.requiresFactor }),
    })
    .where('id', '=', id)
    .execute()
}

export type AccountWithStanding = Account & { readonly standing: Standing }

export async function findAccountWithStanding(db: Db, id: string): Promise<AccountWithStanding | undefined> {
  const account = await findAccount(db, id)
  return account === undefined ? undefined : { ...account, standing: await readStanding(db, id) }
}

/** Returns names by id. */
export async function readAccountNames(db: Db, ids: ReadonlyArray<string | null>): Promise<(id: string) => string> {
  const accountIds = [...new Set(ids)].filter((id) => id !== null)
  const rows =
    accountIds.length === 0
      ? []
      : await db.selectFrom('account').select(['id', 'name']).where('id', 'in', accountIds).execute()
  const names = new Map(rows.map(({ id, name }) => [id, name]))
  return (id) => names.get(id) ?? id
}

/** The newest come first. Accounts are never deleted, so the id of the last one is a stable cursor. */
export async function listAccounts(
  db: Db,
  query: {
    after?: string
    q?: string | undefined
    supplier?: boolean | undefined
    suspended?: boolean | undefined
    limit: number
  },
): Promise<AccountWithStanding[]> {
  let select = db.selectFrom('account').selectAll()
  if (query.q !== undefined) {
    select = select.where(sql<boolean>`position(lower(${query.q}) in lower(concat_ws(' ', name, id))) > 0`)
  }
  if (query.supplier !== undefined) select = select.where('platform_fee_bp', query.supplier ? 'is not' : 'is', null)
  if (query.suspended !== undefined) select = select.where('suspended_at', query.suspended ? 'is not' : 'is', null)
  if (query.after !== undefined) {
    select = select.where(
      sql<boolean>`(created_at, id) < (select a.created_at, a.id from account a where a.id = ${query.after})`,
    )
  }
  const accounts = await select.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(query.limit).execute()
  const standings = await readStandings(
    db,
    accounts.map(({ id }) => id),
  )
  return accounts.flatMap((account) => {
    const standing = standings.get(account.id)
    return standing === undefined ? [] : [{ ...account, standing }]
  })
}

/** Returns the person with this email address. An existing person keeps their name. */
export async function findOrInsertPerson(tx: Tx, person: { email: string; name: string | null }): Promise<Person> {
  const email = person.email.toLowerCase()
  await tx.db
    .insertInto('person')
    .values({ id: randomId('usr'), email, name: person.name, created_at: toDate(tx.clock.now()) })
    .onConflict((conflict) => conflict.column('email').doNothing())
    .execute()
  return tx.db.selectFrom('person').selectAll().where('email', '=', email).executeTakeFirstOrThrow()
}

/** Otherwise whoever adds an address would learn whether somebody here has it. */
const hasPasskey = sql<boolean>`
  member.accepted_at is not null and exists (select 1 from passkey k where k.person_id = person.id)`

function selectMembers(db: Db, accountId: string) {
  return db
    .selectFrom('member')
    .innerJoin('person', 'person.id', 'member.person_id')
    .select(['person.id', 'person.email', 'member.name', 'member.role', 'member.created_at'])
    .select(['member.mail_confirmed_at', 'member.accepted_at'])
    .select(hasPasskey.as('has_passkey'))
    .select(sql<string | null>`null`.as('picture'))
    .where('member.account_id', '=', accountId)
}

export async function listMembers(db: Db, accountId: string): Promise<Member[]> {
  return selectMembers(db, accountId)
    .orderBy('member.created_at')
    .orderBy('person.id')
    .limit(limits.plainListRows)
    .execute()
}

export async function findMember(db: Db, accountId: string, personId: string): Promise<Member | undefined> {
  return selectMembers(db, accountId).where('person.id', '=', personId).executeTakeFirst()
}

/** False: the person is a member already. */
export async function insertMember(
  tx: Tx,
  member: { accountId: string; personId: string; role: Role; name: string | null; isAddressConfirmed?: true },
): Promise<boolean> {
  const now = toDate(tx.clock.now())
  const row = await tx.db
    .insertInto('member')
    .values({
      account_id: member.accountId,
      person_id: member.personId,
      role: member.role,
      name: member.name,
      mail_confirmed_at: member.isAddressConfirmed === true ? now : null,
      created_at: now,
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning('person_id')
    .executeTakeFirst()
  return row !== undefined
}

/** The member gets email from now on. False: there is no such member. */
export async function confirmMail(tx: Tx, accountId: string, personId: string): Promise<boolean> {
  const result = await tx.db
    .updateTable('member')
    .set({ mail_confirmed_at: toDate(tx.clock.now()) })
    .where('account_id', '=', accountId)
    .where('person_id', '=', personId)
    .executeTakeFirst()
  return result.numUpdatedRows > 0n
}

/** The lock on the account comes before this one. */
export async function lockPerson(tx: Tx, personId: string): Promise<void> {
  await tx.db.selectFrom('person').select('id').where('id', '=', personId).forUpdate().execute()
}

export async function countMembers(db: Db, accountId: string): Promise<number> {
  const row = await db
    .selectFrom('member')
    .select(sql<number>`count(*)::integer`.as('members'))
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  return row.members
}

export async function setRole(tx: Tx, accountId: string, personId: string, role: Role): Promise<void> {
  await tx.db
    .updateTable('member')
    .set({ role })
    .where('account_id', '=', accountId)
    .where('person_id', '=', personId)
    .execute()
}

export async function deleteMember(tx: Tx, accountId: string, personId: string): Promise<void> {
  await tx.db.deleteFrom('member').where('account_id', '=', accountId).where('person_id', '=', personId).execute()
}

/**
 * Whether someone else could still manage the account: an owner who can sign in, or one with a live key that has the
 * scope `keys`. Call it under `lockAccount`, so that the answer stays true.
 */
export async function hasOtherActiveOwner(tx: Tx, accountId: string, personId: string): Promise<boolean> {
  const now = at(tx.clock.now())
  const { rows } = await sql`
    select 1 from member m join person p on p.id = m.person_id
    where m.account_id = ${accountId} and m.role = 'owner' and m.person_id <> ${personId} and p.disabled_at is null
      and ((m.accepted_at is not null and p.email_verified_at is not null)
        or exists (select 1 from api_key k where k.account_id = m.account_id and k.person_id = m.person_id
          and k.revoked_at is null and (k.expires_at is null or k.expires_at > ${now})
          and k.scopes && array['keys', 'operator']::text[]))
    limit 1`.execute(tx.db)
  return rows.length > 0
}

/** Returns people of any account, by id. */
export async function listPeople(db: Db, ids: readonly string[]): Promise<Map<string, Person>> {
  if (ids.length === 0) return new Map()
  const rows = await db.selectFrom('person').selectAll().where('id', 'in', ids).execute()
  return new Map(rows.map((row) => [row.id, row]))
}
