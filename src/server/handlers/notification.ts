/** Notifications, the choice of channels, and the operator's test of the mail server, over HTTP. */
import type { App, Actor } from '../../app/app.ts'
import {
  changeChoices,
  readChoices,
  readerOf,
  readNotifications,
  sendTestMail,
  type Choices,
} from '../../app/account/notification.ts'
import { sendConfirmation } from '../../app/account/mail-confirmation.ts'
import { addMs, DAY_MS } from '../../base/instant.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { ok, type Result } from '../../contract/result.ts'
import { describeNotice } from '../../domain/notification.ts'
import { transact } from '../../store/platform/database.ts'
import { countMails } from '../../store/notice/mail.ts'
import { countUnread, listNotifications, type Notification } from '../../store/notice/notification.ts'
import { badCursor, decodeIdCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'

export const notificationHandlers = {
  listNotifications: async ({ database }, { actor, query }) => {
    const beforeId = query.cursor === undefined ? undefined : decodeIdCursor(query.cursor)
    if (query.cursor !== undefined && beforeId === undefined) return badCursor()
    const reader = readerOf(actor)
    const notifications = await listNotifications(database.db, reader, {
      unread: query.unread ?? false,
      limit: rowsToAsk(query.limit),
      ...(beforeId === undefined ? {} : { before: beforeId }),
    })
    const { rows, nextCursor } = pageOf(notifications, query.limit, ({ id }) => id)
    return ok({
      notifications: rows.map(notificationOnWire),
      unread: await countUnread(database.db, reader),
      nextCursor,
    })
  },

  readNotifications: async ({ database }, { actor, body }) => {
    const unread = await transact(database, (tx) => readNotifications(tx, actor, body))
    return unread.ok ? ok({ unread: unread.value }) : unread
  },

  getNotificationChoices: async (app, { actor }) => choicesOnWire(app, await readChoices(app.database.db, actor)),

  changeNotificationChoices: async (app, { actor, body }) =>
    choicesOnWire(app, await changed(app, actor, body.choices)),

  sendConfirmationMail: async (app, { actor }) => {
    const address = await sendConfirmation(app, actor)
    return address.ok ? ok({ message: `Confirmation sent to ${address.value}` }) : address
  },

  sendTestMail: async (app, { body }) => {
    const result = await sendTestMail(app.mailer, body.address)
    return result.ok ? ok({ message: `Test e-mail sent to ${body.address}`, reply: result.value.reply }) : result
  },

  getMailStatus: async ({ database, clock, mailer }) => {
    const counts = await countMails(database.db, addMs(clock.now(), -DAY_MS))
    return ok({
      enabled: mailer !== undefined,
      from: mailer?.from ?? null,
      server: mailer?.server ?? null,
      pending: counts.pending,
      sent24h: counts.sent,
      failed24h: counts.failed,
      lastError: counts.lastError,
      lastErrorAt: counts.lastErrorAt,
    })
  },
} satisfies Partial<Handlers>

function changed(app: App, actor: Actor, choices: Parameters<typeof changeChoices>[2]): Promise<Result<Choices>> {
  return transact(app.database, (tx) => changeChoices(tx, actor, choices))
}

function choicesOnWire(app: App, choices: Result<Choices>): Result<ResponseOf<Api['getNotificationChoices']>> {
  if (!choices.ok) return choices
  return ok({ emailEnabled: app.mailer !== undefined, ...choices.value, choices: [...choices.value.choices] })
}

function notificationOnWire(
  row: Notification & { unread: boolean },
): ResponseOf<Api['listNotifications']>['notifications'][number] {
  const subject = { kind: row.subject_kind, id: row.subject_id }
  return {
    id: row.id.toString(),
    at: row.at,
    kind: row.kind,
    ...describeNotice({ kind: row.kind, subject, data: row.data }),
    subject,
    data: row.data,
    read: !row.unread,
  }
}
