/**
 * Notifications. Those of an account are written with its events (`writeEvents`); operators have a feed of their own,
 * without an account. What is read is kept per member: a mark for everything up to an id, and rows for single ones above.
 */
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { NotificationKind } from '../../contract/notification-kind.ts'
import type { Notice } from '../../domain/notification.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type Notification = Selectable<Tables['notification']>

/** A reader is a member of an account; keys with the scope `operator` read the operators' feed too. */
export interface Reader {
  readonly accountId: string
  readonly personId: string
  readonly isOperator: boolean
}

/** The feed leaves out kinds that the member has turned off in the console. */
function feedOf({ accountId, personId, isOperator }: Reader): RawBuilder<unknown> {
  const account = isOperator
    ? sql`(n.account_id = ${accountId} or n.account_id is null)`
    : sql`n.account_id = ${accountId}`
  return sql`${account} and not exists (select 1 from notification_choice c
    where c.account_id = ${accountId} and c.person_id = ${personId} and c.kind = n.kind and not c.console)`
}

function isUnread({ accountId, personId }: Reader): RawBuilder<boolean> {
  return sql<boolean>`(n.id > coalesce((select read_up_to from notification_mark
      where account_id = ${accountId} and person_id = ${personId}), 0)
    and not exists (select 1 from notification_read d
      where d.account_id = ${accountId} and d.person_id = ${personId} and d.notification_id = n.id))`
}

/** The newest come first. */
export async function listNotifications(
  db: Db,
  reader: Reader,
  query: { before?: bigint; unread: boolean; limit: number },
): Promise<Array<Notification & { unread: boolean }>> {
  const older = query.before === undefined ? sql`true` : sql`n.id < ${query.before.toString()}::bigint`
  const { rows } = await sql<Notification & { unread: boolean }>`
    select n.*, ${isUnread(reader)} as unread from notification n
    where ${feedOf(reader)} and ${older} and (${!query.unread} or ${isUnread(reader)})
    order by n.id desc limit ${query.limit}`.execute(db)
  return rows
}

/** Counts up to `limits.unreadNotifications`. */
export async function countUnread(db: Db, reader: Reader): Promise<number> {
  const { rows } = await sql<{ unread: number }>`
    select count(*)::integer as unread from (
      select 1 from notification n where ${feedOf(reader)} and ${isUnread(reader)}
      limit ${limits.unreadNotifications}) counted`.execute(db)
  return rows[0]?.unread ?? 0
}

export async function markReadUpTo(tx: Tx, reader: Reader, id: bigint): Promise<void> {
  await sql`
    insert into notification_mark (account_id, person_id, read_up_to)
    values (${reader.accountId}, ${reader.personId}, least(${id.toString()}::bigint, (select coalesce(max(id), 0) from notification)))
    on conflict (account_id, person_id) do update set read_up_to = greatest(notification_mark.read_up_to, excluded.read_up_to)`.execute(
    tx.db,
  )
  await sql`
    delete from notification_read where account_id = ${reader.accountId} and person_id = ${reader.personId}
      and notification_id <= ${id.toString()}::bigint`.execute(tx.db)
}

/** Ids outside of the reader's feed are ignored. */
export async function markRead(tx: Tx, reader: Reader, ids: readonly bigint[]): Promise<void> {
  await sql`
    insert into notification_read (account_id, person_id, notification_id)
    select ${reader.accountId}, ${reader.personId}, n.id from notification n
    where n.id = any (${ids.map(String)}::bigint[]) and ${feedOf(reader)} and ${isUnread(reader)}
    order by n.id
    on conflict do nothing`.execute(tx.db)
}

/** Writes a notification for the operators. Those of accounts come from their events. */
export async function notifyOperators(tx: Tx, notice: Notice): Promise<void> {
  await tx.db
    .insertInto('notification')
    .values({
      account_id: null,
      at: toDate(tx.clock.now()),
      kind: notice.kind,
      subject_kind: notice.subject.kind,
      subject_id: notice.subject.id,
      data: JSON.stringify(notice.data),
    })
    .execute()
  tx.wake.add('queue-mail')
}

export interface Choice {
  readonly kind: NotificationKind
  readonly console: boolean
  readonly email: boolean
}

/** Lists only the choices that differ from the defaults. */
export async function listChoices(db: Db, accountId: string, personId: string): Promise<Choice[]> {
  return db
    .selectFrom('notification_choice')
    .select(['kind', 'console', 'email'])
    .where('account_id', '=', accountId)
    .where('person_id', '=', personId)
    .execute()
}

export async function saveChoice(tx: Tx, accountId: string, personId: string, choice: Choice): Promise<void> {
  const { kind, console, email } = choice
  await tx.db
    .insertInto('notification_choice')
    .values({ account_id: accountId, person_id: personId, kind, console, email })
    .onConflict((conflict) => conflict.columns(['account_id', 'person_id', 'kind']).doUpdateSet({ console, email }))
    .execute()
}

/** Deletes the oldest first, so that a bounded number of passes catches up. */
export async function deleteNotifications(db: Db, before: Instant, limit: number): Promise<number> {
  const result = await sql`
    delete from notification where id in (
      select id from notification where at < ${at(before)} order by at limit ${limit})`.execute(db)
  return Number(result.numAffectedRows ?? 0n)
}

/** Opens an alert for the operators. False: it is open already. */
export async function openOperatorAlert(tx: Tx, subject: string, kind: NotificationKind): Promise<boolean> {
  const row = await tx.db
    .insertInto('operator_alert')
    .values({ subject, kind, created_at: toDate(tx.clock.now()) })
    .onConflict((conflict) => conflict.column('subject').doNothing())
    .returning('subject')
    .executeTakeFirst()
  return row !== undefined
}

export async function listOperatorAlerts(db: Db, kind: NotificationKind): Promise<string[]> {
  const rows = await db.selectFrom('operator_alert').select('subject').where('kind', '=', kind).execute()
  return rows.map(({ subject }) => subject)
}

export async function closeOperatorAlert(db: Db, subject: string): Promise<void> {
  await db.deleteFrom('operator_alert').where('subject', '=', subject).execute()
}
