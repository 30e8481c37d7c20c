/**
 * Sends queued e-mail. A message that the mail server refuses for good fails at once; one that it refuses for now is
 * tried again later. If the server cannot be reached or takes nothing, the rest of the pass waits and no attempt counts,
 * so that an outage of the mail server loses no message.
 */
import { addMs, MINUTE_MS, SECOND_MS } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import type { App } from '../app/app.ts'
import { sealUnsubscribe } from '../app/account/unsubscribe.ts'
import { openTemplateMail } from '../app/person/template-mail.ts'
import { notificationKinds } from '../contract/notification-kind.ts'
import { mailRetryMs, type Mailer, type MailMessage, type MailOutcome } from '../domain/mail.ts'
import { describeNotice } from '../domain/notification.ts'
import {
  endMail,
  leaseMails,
  postponeMail,
  readNotifications,
  returnMail,
  type NoticeMail,
  type OutgoingMail,
  type OutgoingTemplateMail,
} from '../store/notice/mail.ts'
import type { Reconciler } from './loop.ts'

const BATCH = 20
const DOWN_WAIT_MS = MINUTE_MS

export function sendMail(app: App): Reconciler {
  return {
    name: 'send-mail',
    everyMs: 5 * SECOND_MS,
    run: async (signal) => {
      const { mailer, database } = app
      if (mailer === undefined) return false
      const now = app.clock.now()
      const leaseMs = 2 * BATCH * limits.mailTimeoutMs
      const { token, rows } = await leaseMails(database.db, { now, leaseMs, limit: BATCH })
      let down: string | undefined
      for (const mail of rows) {
        const leased = { id: mail.id, token }
        if (signal.aborted || down !== undefined) {
          const dueAt = down === undefined ? now : addMs(app.clock.now(), DOWN_WAIT_MS)
          await returnMail(database.db, leased, dueAt, down ?? null)
          continue
        }
        const outcome =
          mail.about === 'template' ? await sendTemplate(app, mailer, mail) : await sendNotices(app, mailer, mail)
        if (outcome.kind === 'down') {
          down = outcome.error
          await returnMail(database.db, leased, addMs(app.clock.now(), DOWN_WAIT_MS), outcome.error)
        } else await writeBack(app, mail, token, outcome)
      }
      return down === undefined && rows.length === BATCH
    },
  }
}

async function sendTemplate(app: App, mailer: Mailer, mail: OutgoingTemplateMail): Promise<MailOutcome> {
  const content = openTemplateMail(app, mail.dataSealed)
  if (content === undefined) return { kind: 'refused', error: 'The message came too late to be of use.' }
  return mailer.sendTemplate(mail.to, content, mail.id)
}

async function sendNotices(app: App, mailer: Mailer, mail: NoticeMail): Promise<MailOutcome> {
  const notifications = await readNotifications(app.database.db, mail.notificationIds, limits.mailLines)
  const message: MailMessage = {
    to: mail.to,
    accountName: mail.accountName,
    kindLabel: notificationKinds[mail.kind].label,
    notices: notifications.map(({ kind, subject_kind, subject_id, data }) =>
      describeNotice({ kind, subject: { kind: subject_kind, id: subject_id }, data }),
    ),
    more: mail.notificationIds.length - notifications.length,
    unsubscribeToken: sealUnsubscribe(app.vault, mail),
    messageId: mail.id,
  }
  return mailer.send(message)
}

async function writeBack(
  app: App,
  mail: OutgoingMail,
  token: string,
  outcome: Exclude<MailOutcome, { kind: 'down' }>,
): Promise<void> {
  const { db } = app.database
  const leased = { id: mail.id, token }
  const at = app.clock.now()
  if (outcome.kind === 'sent') return endMail(db, leased, 'sent', { at, error: null })
  const delayMs = outcome.kind === 'refused' ? undefined : mailRetryMs(mail.attempts)
  if (delayMs === undefined) return endMail(db, leased, 'failed', { at, error: outcome.error })
  return postponeMail(db, leased, addMs(at, delayMs), outcome.error)
}
