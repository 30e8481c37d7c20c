/** Notifications: what a member should know, in the console and by e-mail. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { notificationKinds, type NotificationKind } from './notification-kind.ts'
import { message, pageQuery, timestamp } from './shared.ts'

const kindNames = Object.keys(notificationKinds) as [NotificationKind, ...NotificationKind[]]
const kind = z.enum(kindNames)

const notificationRecord = z
  .object({
    id: z.string(),
    at: timestamp,
    kind,
    severity: z.enum(['info', 'warning', 'critical']),
    title: z.string(),
    text: z.string(),
    subject: z.object({ kind: z.string(), id: z.string() }),
    data: z.record(z.string(), z.unknown()),
    read: z.boolean(),
  })
  .meta({ id: 'Notification' })
export type NotificationRecord = z.output<typeof notificationRecord>

const choice = z.object({ kind, label: z.string(), console: z.boolean(), email: z.boolean() })

const choices = z
  .object({
    emailEnabled: z.boolean().describe('Whether the operator has configured a mail server'),
    emailAddress: z.string(),
    emailConfirmed: z.boolean().describe('If false, no e-mail is sent until you confirm the address'),
    choices: z.array(choice),
  })
  .meta({ id: 'NotificationChoices' })

const notifications = { family: 'v2', tag: 'Events and webhooks' } as const

export const notificationEndpoints = {
  listNotifications: endpoint({
    ...notifications,
    method: 'GET',
    path: '/v2/notifications',
    access: ['compute:read', 'billing:read', 'operator'],
    summary: 'List notifications of the account, newest first',
    description:
      'Keys with the scope `operator` also get the notifications for operators. Notifications are kept for 90 days.',
    errors: [400, 401, 403, 500],
    query: pageQuery.extend({ unread: z.stringbool().optional().describe('Only unread ones') }),
    response: z.object({
      notifications: z.array(notificationRecord),
      unread: z.int().max(limits.unreadNotifications).describe(`Counted up to ${limits.unreadNotifications}`),
      nextCursor: z.string().nullable(),
    }),
  }),
  readNotifications: endpoint({
    ...notifications,
    method: 'POST',
    path: '/v2/notifications/read',
    access: ['compute:read', 'billing:read', 'operator'],
    summary: 'Mark notifications as read, for the calling member',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        ids: z
          .array(z.string().regex(/^\d{1,18}$/))
          .min(1)
          .max(limits.requestIds)
          .optional()
          .describe('These notifications'),
        upTo: z
          .string()
          .regex(/^\d{1,18}$/)
          .optional()
          .describe('All notifications up to this ID'),
      })
      .meta({ id: 'ReadNotifications' }),
    response: z.object({ unread: z.int().max(limits.unreadNotifications) }),
  }),
  getNotificationChoices: endpoint({
    ...notifications,
    method: 'GET',
    path: '/v2/users/me/notifications',
    access: 'any-key',
    summary: 'Get which notifications you receive in the console and by e-mail',
    errors: [401, 403, 500],
    response: choices,
  }),
  changeNotificationChoices: endpoint({
    ...notifications,
    method: 'PATCH',
    path: '/v2/users/me/notifications',
    access: 'any-key',
    summary: 'Choose which notifications you receive in the console and by e-mail',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        choices: z
          .array(z.strictObject({ kind, console: z.boolean().optional(), email: z.boolean().optional() }))
          .min(1)
          .max(kindNames.length),
      })
      .meta({ id: 'ChangeNotificationChoices' }),
    response: choices,
  }),
  sendConfirmationMail: endpoint({
    ...notifications,
    method: 'POST',
    path: '/v2/users/me/notifications/confirm',
    access: 'any-key',
    summary: 'Send an e-mail with a link that confirms your address',
    description: `Notifications of the account come by e-mail only to confirmed addresses. Addresses that the operator entered are confirmed. At most ${limits.confirmationsPerAddress} of these messages per address and day, and ${limits.confirmationsPerAccount} per account and day.`,
    errors: [400, 401, 403, 500],
    response: message,
  }),
  sendTestMail: endpoint({
    family: 'v2',
    tag: 'Operator',
    method: 'POST',
    path: '/v2/operator/mail/test',
    access: ['operator'],
    summary: 'Send a test e-mail',
    errors: [400, 401, 403, 500],
    body: z.strictObject({ address: z.email().max(255) }).meta({ id: 'SendTestMail' }),
    response: z.object({ message: z.string(), reply: z.string().describe('Answer of the mail server') }),
  }),
  getMailStatus: endpoint({
    family: 'v2',
    tag: 'Operator',
    method: 'GET',
    path: '/v2/operator/mail',
    access: ['operator'],
    summary: 'Show the mail server and the outgoing e-mail',
    errors: [400, 401, 403, 500],
    response: z.object({
      enabled: z.boolean(),
      from: z.string().nullable(),
      server: z.string().nullable().describe('Host and port'),
      pending: z.number(),
      sent24h: z.number(),
      failed24h: z.number(),
      lastError: z.string().nullable(),
      lastErrorAt: timestamp.nullable(),
    }),
  }),
}
