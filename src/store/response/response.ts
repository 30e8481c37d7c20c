/** Stored responses and the conversations that they form. Their content is sealed by the caller. */
import { sql, type Selectable } from 'kysely'
import type { Instant } from '../../base/instant.ts'
import { at, type Db } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type StoredResponse = Selectable<Tables['response']>

export interface ResponseRow {
  readonly id: string
  readonly accountId: string
  readonly previousId: string | null
  readonly keySealed: string
  readonly sealed: Buffer
  readonly createdAt: Instant
  readonly expiresAt: Instant
}

export async function insertResponse(db: Db, row: ResponseRow): Promise<void> {
  const { id, accountId, previousId, keySealed, sealed } = row
  await sql`
    insert into response (id, account_id, previous_id, root_id, key_sealed, sealed, size_bytes, created_at, expires_at)
    values (${id}, ${accountId}, ${previousId},
      coalesce((select root_id from response where id = ${previousId} and account_id = ${accountId}), ${id}),
      ${keySealed}, ${sealed}, ${sealed.length}, ${at(row.createdAt)}, ${at(row.expiresAt)})`.execute(db)
}

export async function findResponse(
  db: Db,
  accountId: string,
  id: string,
  now: Instant,
): Promise<StoredResponse | undefined> {
  return db
    .selectFrom('response')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .where('expires_at', '>', at(now))
    .executeTakeFirst()
}

export interface ConversationLink {
  readonly id: string
  readonly previous_id: string | null
  readonly size_bytes: number
}

/**
 * Lists the conversation that ends with this response, newest first, at most `limit`. The response itself must not have
 * expired.
 */
export async function listConversation(
  db: Db,
  query: { readonly accountId: string; readonly id: string; readonly now: Instant; readonly limit: number },
): Promise<ConversationLink[]> {
  const { accountId, id, now, limit } = query
  const { rows } = await sql<ConversationLink>`
    with recursive link as (
      select id, previous_id, size_bytes, 1 as depth from response
      where id = ${id} and account_id = ${accountId} and expires_at > ${at(now)}
      union all
      select p.id, p.previous_id, p.size_bytes, l.depth + 1 from link l
      join response p on p.id = l.previous_id and p.account_id = ${accountId}
      where l.depth < ${limit}
    )
    select id, previous_id, size_bytes from link order by depth`.execute(db)
  return rows
}

export async function readResponses(db: Db, accountId: string, ids: readonly string[]): Promise<StoredResponse[]> {
  return db.selectFrom('response').selectAll().where('account_id', '=', accountId).where('id', 'in', ids).execute()
}

/** False: there is no such response. */
export async function deleteResponse(db: Db, accountId: string, id: string, now: Instant): Promise<boolean> {
  const { numDeletedRows } = await db
    .deleteFrom('response')
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .where('expires_at', '>', at(now))
    .executeTakeFirst()
  return numDeletedRows > 0n
}

/** Deletes conversations in which every response has expired. Returns the number of deleted responses. */
export async function deleteExpiredResponses(db: Db, now: Instant, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from response where id in (
      select r.id from response r where r.expires_at <= ${at(now)}
      and not exists (select from response l where l.root_id = r.root_id and l.expires_at > ${at(now)})
      order by r.expires_at limit ${limit} for update skip locked)`.execute(db)
  return Number(numAffectedRows ?? 0n)
}

/** Deletes the oldest responses of accounts that store more than `maxBytes`. Returns their number. */
export async function deleteExcessResponses(db: Db, maxBytes: number, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from response where id in (
      select id from (
        select id, created_at, sum(size_bytes) over (partition by account_id order by created_at desc, id) as total
        from response where account_id in (
          select account_id from response group by account_id having sum(size_bytes) > ${maxBytes})
      ) ranked where total > ${maxBytes} order by created_at limit ${limit})`.execute(db)
  return Number(numAffectedRows ?? 0n)
}
