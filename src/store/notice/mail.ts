/** The outbox of emails: queued from notifications, leased by the loop that sends them. */
import { sql } from 'kysely'
import { randomId } from '../../base/id.ts'
import { toDate, type Instant } from '../../base/instant.ts'
import type { NotificationKind } from '../../contract/notification-kind.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import { leaseDue, releaseLease, type Leased } from '../platform/lease.ts'
import type { Notification } from './notification.ts'

/** Notifications of one kind and account that were not mailed yet. */
export interface MailGroup {
  /** null: they are for the operators. */
  readonly accountId: string | null
  readonly kind: NotificationKind
  readonly ids: readonly bigint[]
}

/**
 * Groups that can be queued now, longest waiting first: those whose last message is older than `since`. Locks nothing;
 * `claimNotifications` decides between servers.
 */
export async function listMailGroups(db: Db, since: Instant, limit: number): Promise<MailGroup[]> {
  const { rows } = await sql<MailGroup>`
    select n.account_id as "accountId", n.kind, array_agg(n.id order by n.id) as ids
    from (select * from notification where mailed_at is null order by id limit 5000) n
    where not exists (select 1 from notification p where p.account_id is not distinct from n.account_id
      and p.kind = n.kind and p.mailed_at > ${at(since)})
    group by n.account_id, n.kind
    order by min(n.id) limit ${limit}`.execute(db)
  return rows.map((row) => ({ ...row, ids: row.ids.map(BigInt) }))
}

/** Marks notifications as queued, and returns those that no other server has taken. */
export async function claimNotifications(tx: Tx, ids: readonly bigint[]): Promise<Array<{ id: bigint; at: Instant }>> {
  const { rows } = await sql<{ id: bigint; at: Instant }>`
    update notification set mailed_at = ${toDate(tx.clock.now())}
    where id in (select id from notification where id = any (${ids.map(String)}::bigint[]) and mailed_at is null
                 order by id for update skip locked)
    returning id, at`.execute(tx.db)
  return rows
}

export interface Recipient {
  readonly accountId: string
  readonly personId: string
}

/** Lists members of an account who confirmed email and want this kind; `byDefault` is for those who have not chosen. */
export async function listRecipients(
  db: Db,
  accountId: string,
  kind: NotificationKind,
  byDefault: boolean,
): Promise<Recipient[]> {
  const { rows } = await sql<Recipient>`
    select m.account_id as "accountId", m.person_id as "personId"
    from member m
    join account a on a.id = m.account_id and a.suspended_at is null
    left join notification_choice c on c.account_id = m.account_id and c.person_id = m.person_id and c.kind = ${kind}
    where m.account_id = ${accountId} and m.mail_confirmed_at is not null and coalesce(c.email, ${byDefault}) order by m.person_id`.execute(
    db,
  )
  return rows
}

/** Lists people with an active key of the scope `operator`, by membership. */
export async function listOperatorRecipients(
  db: Db,
  kind: NotificationKind,
  byDefault: boolean,
  now: Instant,
): Promise<Recipient[]> {
  const { rows } = await sql<Recipient>`
    select distinct on (m.person_id) m.account_id as "accountId", m.person_id as "personId"
    from api_key k
    join member m on m.account_id = k.account_id and m.person_id = k.person_id
    left join notification_choice c on c.account_id = m.account_id and c.person_id = m.person_id and c.kind = ${kind}
    where 'operator' = any (k.scopes) and k.revoked_at is null and (k.expires_at is null or k.expires_at > ${at(now)})
      and m.mail_confirmed_at is not null and coalesce(c.email, ${byDefault}) order by m.person_id, m.account_id`.execute(
    db,
  )
  return rows
}

export async function insertMails(
  tx: Tx,
  recipients: readonly Recipient[],
  kind: NotificationKind,
  ids: readonly bigint[],
): Promise<void> {
  if (recipients.length === 0) return
  const now = toDate(tx.clock.now())
  await tx.db
    .insertInto('mail')
    .values(
      recipients.map(({ accountId, personId }) => ({
        id: randomId('mail'),
        account_id: accountId,
        person_id: personId,
        kind,
        notification_ids: [...ids],
        due_at: now,
        created_at: now,
      })),
    )
    .execute()
  tx.wake.add('send-mail')
}

/** `isWithheld`: the message is stored and not sent. */
export async function insertTemplateMail(
  tx: Tx,
  mail: { to: string; template: string; dataSealed: string; isWithheld: boolean },
): Promise<void> {
  const now = toDate(tx.clock.now())
  await tx.db
    .insertInto('mail')
    .values({
      id: randomId('mail'),
      to_address: mail.to,
      template: mail.template,
      data_sealed: mail.dataSealed,
      state: mail.isWithheld ? 'withheld' : 'pending',
      due_at: now,
      created_at: now,
      ended_at: mail.isWithheld ? now : null,
    })
    .execute()
}

export type OutgoingMail = NoticeMail | OutgoingTemplateMail

/** A message with a template, to an address that may belong to nobody here. */
export interface OutgoingTemplateMail {
  readonly about: 'template'
  readonly id: string
  readonly attempts: number
  readonly to: string
  readonly dataSealed: string
}

/** A message to a member about notifications of one kind. */
export interface NoticeMail {
  readonly about: 'notifications'
  readonly id: string
  readonly attempts: number
  readonly accountId: string
  readonly personId: string
  readonly kind: NotificationKind
  readonly to: string
  readonly accountName: string
  readonly notificationIds: readonly bigint[]
}

export async function leaseMails(
  db: Db,
  options: { now: Instant; leaseMs: number; limit: number },
): Promise<Leased<OutgoingMail>> {
  const { token, rows } = await leaseDue(db, 'mail', sql`t.state = 'pending'`, options)
  if (rows.length === 0) return { token, rows: [] }
  const messages = await db
    .selectFrom('mail as m')
    .leftJoin('person as p', 'p.id', 'm.person_id')
    .leftJoin('account as a', 'a.id', 'm.account_id')
    .select(['m.id', 'm.attempts', 'm.account_id', 'm.person_id', 'm.kind', 'm.notification_ids'])
    .select(['m.to_address', 'm.data_sealed', 'p.email', 'a.name as account_name'])
    .where(
      'm.id',
      'in',
      rows.map(({ id }) => id),
    )
    .orderBy('m.due_at')
    .orderBy('m.id')
    .execute()
  return {
    token,
    rows: messages.map((row): OutgoingMail => {
      const { id, attempts, to_address: to, data_sealed: dataSealed } = row
      if (to !== null && dataSealed !== null) return { about: 'template', id, attempts, to, dataSealed }
      const { account_id: accountId, person_id: personId, kind, email, account_name: accountName } = row
      if (accountId === null || personId === null || kind === null || email === null || accountName === null)
        throw new Error(`the mail ${id} is about nothing`)
      const notificationIds = (row.notification_ids ?? []).map(BigInt)
      return {
        about: 'notifications',
        id,
        attempts,
        accountId,
        personId,
        kind,
        to: email,
        accountName,
        notificationIds,
      }
    }),
  }
}

/** The newest come first. */
export async function readNotifications(db: Db, ids: readonly bigint[], limit: number): Promise<Notification[]> {
  if (ids.length === 0) return []
  return db.selectFrom('notification').selectAll().where('id', 'in', ids).orderBy('id', 'desc').limit(limit).execute()
}

interface LeasedMail {
  readonly id: string
  readonly token: string
}

export async function endMail(
  db: Db,
  mail: LeasedMail,
  state: 'sent' | 'failed',
  end: { at: Instant; error: string | null },
): Promise<void> {
  // A code or a link is deleted as soon as its message has ended.
  const dataSealed = sql<string | null>`case when data_sealed is not null then '' end`
  const change = { state, last_error: errorText(end.error), ended_at: toDate(end.at), data_sealed: dataSealed }
  await releaseLease(db, 'mail', mail, mail.token, change)
}

export async function postponeMail(db: Db, mail: LeasedMail, dueAt: Instant, error: string): Promise<void> {
  await releaseLease(db, 'mail', mail, mail.token, { due_at: toDate(dueAt), last_error: errorText(error) })
}

/** Undoes the lease. The attempt does not count, because the mail server accepted nothing. */
export async function returnMail(db: Db, mail: LeasedMail, dueAt: Instant, error: string | null): Promise<void> {
  await releaseLease(db, 'mail', mail, mail.token, {
    attempts: sql`attempts - 1`,
    due_at: toDate(dueAt),
    ...(error === null ? {} : { last_error: errorText(error) }),
  })
}

const MAX_ERROR_CHARS = 500

function errorText(error: string | null): string | null {
  return error?.replaceAll(/\p{Cc}+/gu, ' ').slice(0, MAX_ERROR_CHARS) ?? null
}

/** Counts confirmation messages since `since`, those of the account and those to the person. */
export async function countConfirmations(
  db: Db,
  { accountId, personId }: Recipient,
  since: Instant,
): Promise<{ ofAccount: number; ofPerson: number }> {
  const counts = await sql<{ ofAccount: number; ofPerson: number }>`
    select (select count(*)::integer from mail_confirmation
            where account_id = ${accountId} and sent_at > ${at(since)}) as "ofAccount",
      (select count(*)::integer from mail_confirmation
       where person_id = ${personId} and sent_at > ${at(since)}) as "ofPerson"`.execute(db)
  return counts.rows[0] ?? { ofAccount: 0, ofPerson: 0 }
}

export async function insertConfirmation(tx: Tx, { accountId, personId }: Recipient): Promise<void> {
  await tx.db
    .insertInto('mail_confirmation')
    .values({ account_id: accountId, person_id: personId, sent_at: toDate(tx.clock.now()) })
    .execute()
}

export async function deleteConfirmations(db: Db, before: Instant, limit: number): Promise<number> {
  const result = await sql`
    delete from mail_confirmation where id in (
      select id from mail_confirmation where sent_at < ${at(before)} order by sent_at limit ${limit})`.execute(db)
  return Number(result.numAffectedRows ?? 0n)
}

export async function deleteMails(db: Db, before: Instant, limit: number): Promise<number> {
  const result = await sql`
    delete from mail where id in (
      select id from mail where created_at < ${at(before)} order by created_at limit ${limit})`.execute(db)
  return Number(result.numAffectedRows ?? 0n)
}

export interface MailCounts {
  readonly pending: number
  readonly sent: number
  readonly failed: number
  readonly lastError: string | null
  readonly lastErrorAt: Instant | null
}

/** Messages that have ended count only since `since`. */
export async function countMails(db: Db, since: Instant): Promise<MailCounts> {
  const { rows } = await sql<MailCounts>`
    select (select count(*)::integer from mail where state = 'pending') as pending,
      (select count(*)::integer from mail where state = 'sent' and created_at > ${at(since)}) as sent,
      (select count(*)::integer from mail where state = 'failed' and created_at > ${at(since)}) as failed,
      last.last_error as "lastError", last.created_at as "lastErrorAt"
    from (select 1) one left join lateral (
      select last_error, created_at from mail where last_error is not null and created_at > ${at(since)}
      order by created_at desc limit 1) last on true`.execute(db)
  return rows[0] ?? { pending: 0, sent: 0, failed: 0, lastError: null, lastErrorAt: null }
}
