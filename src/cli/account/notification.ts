/** `berth notifications`: what the account should know, and what comes by email. */
import { systemClock } from '../../base/instant.ts'
import { notificationKinds, type NotificationKind } from '../../contract/notification-kind.ts'
import { count } from '../../view/number.ts'
import { age } from '../../view/time.ts'
import type { Tone } from '../../view/tone.ts'
import { act, custom, list, show } from '../kit/row.ts'
import { tableOf } from '../kit/record.ts'
import { toned } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { Row } from '../kit/row-type.ts'

const tones = { info: 'info', warning: 'warn', critical: 'bad' } as const satisfies Record<string, Tone>
const kinds = Object.keys(notificationKinds) as NotificationKind[]

interface SetOptions {
  readonly email?: 'on' | 'off'
  readonly console?: 'on' | 'off'
}

const onOff = (help: string) => ({ help, choices: ['on', 'off'] })

export const rows: readonly Row[] = [
  list('notifications ls', 'listNotifications', 'list notifications, newest first', {
    rowsShown: 20,
    flags: { unread: 'only unread ones' },
    columns: [
      'id',
      {
        AGE: ({ at }) => age(at, systemClock.now()),
        NOTIFICATION: ({ title, severity, read }) => toned(tones[severity], read ? title : `• ${title}`),
        DETAILS: ({ text }) => text,
      },
    ],
    wide: ['kind', 'severity', 'read', 'at'],
    empty: ({ options }) =>
      (options as { unread?: true }).unread === true ? ['Nothing unread.'] : ['No notifications yet.'],
    hint: (rows) => (rows.some(({ read }) => !read) ? 'To mark them as read: berth notifications read' : ''),
  }),
  custom('notifications read', 'mark notifications as read', {
    operation: 'readNotifications',
    args: { '[id...]': 'ids; none: all' },
    examples: ['berth notifications read', 'berth notifications read 17 18'],
    run: async ({ client, screen, args }) => {
      const ids = (args[0] ?? []) as readonly string[]
      const { notifications } =
        ids.length > 0 ? { notifications: [] } : await client.call('listNotifications', { query: { limit: 1 } })
      const [newest] = notifications
      if (ids.length === 0 && newest === undefined)
        return screen.show({ unread: 0 }, () => ['There is nothing to read.'])
      const body = newest === undefined ? { ids: [...ids] } : { upTo: newest.id }
      const result = await client.call('readNotifications', { body })
      screen.show(result, () => [
        result.unread === 0 ? 'Everything is read.' : `${count(result.unread, 'notification')} unread.`,
      ])
    },
  }),
  show('notifications channels', 'getNotificationChoices', 'show which notifications you receive, and where', {
    content: ({ emailEnabled, emailAddress, emailConfirmed, choices }) => [
      tableOf(choices, ['kind', 'label:NOTIFICATION', 'console', 'email:EMAIL']),
      '',
      !emailEnabled
        ? 'This server sends no email.'
        : emailConfirmed
          ? `Email goes to ${emailAddress}.`
          : `${emailAddress} is not confirmed, so no email is sent. To confirm it: berth notifications confirm`,
      'To change one: berth notifications set KIND --email off',
    ],
  }),
  act('notifications confirm', 'sendConfirmationMail', 'get an email with a link that confirms your address', {
    done: ({ message }) => `${message}. Open the link in it.`,
  }),
  custom<SetOptions>('notifications set', 'choose where you receive a kind of notification', {
    operation: 'changeNotificationChoices',
    args: { '<kind>': { help: 'kind, as shown by berth notifications channels', choices: kinds } },
    options: { '--email <state>': onOff('by email'), '--console <state>': onOff('in the console') },
    examples: ['berth notifications set rental_lost --email on'],
    run: async ({ client, screen, args, options }) => {
      const { email, console } = options
      if (email === undefined && console === undefined)
        throw new CliError(exitCodes.usage, 'Nothing to change.', ['Add --email on, --email off or --console off.'])
      const choice = {
        kind: args[0] as NotificationKind,
        ...(email === undefined ? {} : { email: email === 'on' }),
        ...(console === undefined ? {} : { console: console === 'on' }),
      }
      const { choices } = await client.call('changeNotificationChoices', { body: { choices: [choice] } })
      const now = choices.find(({ kind }) => kind === choice.kind)
      screen.show(now, () => [
        `${now?.label ?? choice.kind}: console ${now?.console === true ? 'on' : 'off'}, email ${now?.email === true ? 'on' : 'off'}.`,
      ])
    },
  }),
]
