/** Webhooks of an account. Secrets are sealed. */
import type { Selectable } from 'kysely'
import { toDate, toDateOrNull } from '../../base/instant.ts'
import { randomId } from '../../base/id.ts'
import { limits } from '../../base/limits.ts'
import type { EventType } from '../../contract/event-type.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type Webhook = Selectable<Tables['webhook']>

export async function insertWebhook(
  tx: Tx,
  webhook: {
    accountId: string
    url: string
    description: string | null
    eventTypes: EventType[] | null
    secretSealed: string
  },
): Promise<Webhook> {
  return tx.db
    .insertInto('webhook')
    .values({
      id: randomId('whk'),
      account_id: webhook.accountId,
      url: webhook.url,
      description: webhook.description,
      event_types: webhook.eventTypes,
      secret_sealed: webhook.secretSealed,
      created_at: toDate(tx.clock.now()),
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Call it under `lockAccount`, so that concurrent creates see each other when they check the quota. */
export async function countWebhooks(db: Db, accountId: string): Promise<number> {
  const { count } = await db
    .selectFrom('webhook')
    .select((row) => row.fn.countAll<bigint>().as('count'))
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** The oldest come first. */
export async function listWebhooks(db: Db, accountId: string): Promise<Webhook[]> {
  return db
    .selectFrom('webhook')
    .selectAll()
    .where('account_id', '=', accountId)
    .orderBy('created_at')
    .orderBy('id')
    .limit(limits.plainListRows)
    .execute()
}

export async function findWebhook(db: Db, accountId: string, id: string): Promise<Webhook | undefined> {
  return db
    .selectFrom('webhook')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
}

export async function lockWebhook(tx: Tx, accountId: string, id: string): Promise<Webhook | undefined> {
  return tx.db
    .selectFrom('webhook')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirst()
}

type Change = Partial<Omit<Webhook, 'id' | 'account_id' | 'created_at' | 'updated_at'>>

export async function changeWebhook(tx: Tx, id: string, change: Change): Promise<Webhook> {
  const { old_secret_until, ...columns } = change
  return tx.db
    .updateTable('webhook')
    .set({
      ...columns,
      ...(old_secret_until === undefined ? {} : { old_secret_until: toDateOrNull(old_secret_until) }),
      updated_at: toDate(tx.clock.now()),
    })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** Deletes its deliveries too. False: the account has no such webhook. */
export async function deleteWebhook(tx: Tx, accountId: string, id: string): Promise<boolean> {
  const result = await tx.db
    .deleteFrom('webhook')
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
  return result.numDeletedRows > 0n
}
