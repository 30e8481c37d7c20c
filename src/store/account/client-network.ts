/** Counts what the clients of one network asked for: codes by email, logins of devices, accounts of their own. */
import { sql } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { at, type Db, type Tx } from '../platform/database.ts'

/** Each has the columns `network` and `created_at`. */
export type Counted = 'email_code' | 'device_login' | 'self_opened_account'

/** Counts the rows of a network since `since`. Locks the network until the end of the transaction, so that requests take turns. */
export async function lockAndCount(tx: Tx, counted: Counted, network: string, since: Instant): Promise<number> {
  await sql`select pg_advisory_xact_lock(hashtext(${`berth ${counted}`}), hashtext(${network}))`.execute(tx.db)
  const row = await tx.db
    .selectFrom(counted)
    .select(sql<number>`count(*)::integer`.as('rows'))
    .where('network', '=', network)
    .where('created_at', '>', at(since))
    .executeTakeFirstOrThrow()
  return row.rows
}

export async function insertSelfOpenedAccount(tx: Tx, accountId: string, network: string): Promise<void> {
  await tx.db
    .insertInto('self_opened_account')
    .values({ account_id: accountId, network, created_at: toDate(tx.clock.now()) })
    .execute()
}

export async function deleteSelfOpenedAccounts(db: Db, before: Instant): Promise<void> {
  await db.deleteFrom('self_opened_account').where('created_at', '<=', at(before)).execute()
}
