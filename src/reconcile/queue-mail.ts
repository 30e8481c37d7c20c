/**
 * Queues e-mail about new notifications, and deletes old notifications and messages. Notifications of one kind that
 * arrive soon after a message gather for the next one, so that a burst of failures is one message and not hundreds.
 */
import { addMs, DAY_MS, SECOND_MS } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import type { App } from '../app/app.ts'
import { notificationKinds } from '../contract/notification-kind.ts'
import { mailFreshMs, mailGatherMs } from '../domain/mail.ts'
import { transact, type Tx } from '../store/platform/database.ts'
import {
  claimNotifications,
  deleteConfirmations,
  deleteMails,
  insertMails,
  listMailGroups,
  listOperatorRecipients,
  listRecipients,
  type MailGroup,
} from '../store/notice/mail.ts'
import { deleteNotifications } from '../store/notice/notification.ts'
import { eachOf, type Reconciler } from './loop.ts'

const GROUPS = 100
const WIDTH = 4
const DELETE_BATCH = 1_000

export function queueMail(app: App): Reconciler {
  return {
    name: 'queue-mail',
    everyMs: 15 * SECOND_MS,
    run: async () => {
      const now = app.clock.now()
      const { db } = app.database
      // Without a mail server the marks are set all the same: a mail server that is configured later must not send old
      // news.
      const since = app.mailer === undefined ? now : addMs(now, -mailGatherMs)
      const groups = await listMailGroups(db, since, GROUPS)
      await eachOf(groups, WIDTH, (group) => transact(app.database, (tx) => queueGroup(app, tx, group)))
      const old = await deleteNotifications(db, addMs(now, -limits.notificationDays * DAY_MS), DELETE_BATCH)
      const sent = await deleteMails(db, addMs(now, -limits.mailDays * DAY_MS), DELETE_BATCH)
      const confirmations = await deleteConfirmations(db, addMs(now, -limits.mailDays * DAY_MS), DELETE_BATCH)
      return groups.length === GROUPS || [old, sent, confirmations].includes(DELETE_BATCH)
    },
  }
}

async function queueGroup(app: App, tx: Tx, { accountId, kind, ids }: MailGroup): Promise<void> {
  const now = tx.clock.now()
  const claimed = await claimNotifications(tx, ids)
  const fresh = claimed.filter(({ at }) => now - at <= mailFreshMs).map(({ id }) => id)
  if (app.mailer === undefined || fresh.length === 0) return
  const { email } = notificationKinds[kind]
  const recipients =
    accountId === null
      ? await listOperatorRecipients(tx.db, kind, email, now)
      : await listRecipients(tx.db, accountId, kind, email)
  await insertMails(tx, recipients, kind, fresh)
}
