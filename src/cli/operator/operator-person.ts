/** `berth operator people` and the list of mail. */
import { utcDay, utcTime } from '../../view/time.ts'
import { act, list, withBody } from '../kit/row.ts'
import { red } from '../kit/screen.ts'
import { targetOf } from '../kit/target.ts'
import type { Row } from '../kit/row-type.ts'

const invitation = targetOf('invitation', 'berth operator people invitations', {
  read: async (client) => (await client.call('listSignUpInvitations')).invitations,
  id: 'id',
  name: 'email',
  named: 'email address',
})

const person = targetOf('person', 'berth operator people ls', {
  read: async (client, idOrEmail) => (await client.call('listPeople', { query: { q: idOrEmail } })).people,
  id: 'id',
  name: 'email',
  named: 'email address',
})

export const rows: readonly Row[] = [
  list('operator people ls', 'listPeople', 'list people, the newest first', {
    columns: [
      'id',
      'email',
      {
        STATE: ({ disabledAt, provedAt }) =>
          disabledAt !== null ? red('disabled') : provedAt === null ? 'not proved' : 'active',
        ACCOUNTS: ({ accounts }) => accounts.map(({ accountName }) => accountName).join(', '),
        SINCE: ({ createdAt }) => utcDay(createdAt),
      },
    ],
    examples: ['berth operator people ls', 'berth operator people ls --q example.com'],
  }),
  act('operator people disable', 'changePerson', 'refuse all keys and sessions of a person; asks first', {
    target: person,
    only: ['reason'],
    flags: { reason: 'why; recorded in the audit log' },
    confirm: ({ target }) => `Refuse all keys and sessions of ${target.email}?`,
    examples: ['berth operator people disable second@example.com --reason "left"'],
    prepare: ({ input }) => withBody(input, { disabled: true }),
    done: ({ email }) => `Disabled ${email}.`,
  }),
  act('operator people enable', 'changePerson', 'let a person in again', {
    target: person,
    only: ['reason'],
    flags: { reason: 'why; recorded in the audit log' },
    examples: ['berth operator people enable second@example.com --reason "is back"'],
    prepare: ({ input }) => withBody(input, { disabled: false }),
    done: ({ email }) => `Enabled ${email}.`,
  }),
  act('operator people reset-passkeys', 'resetFactors', 'remove all passkeys of a person who lost them; asks first', {
    target: person,
    flags: { reason: 'why; recorded in the audit log' },
    confirm: ({ target }) =>
      `Remove all passkeys and recovery codes of ${target.email}? Make sure that it is they who ask.`,
    examples: ['berth operator people reset-passkeys ada@example.com --reason "lost phone"'],
    done: ({ passkeys }, { target }) =>
      `Removed ${passkeys} ${passkeys === 1 ? 'passkey' : 'passkeys'} of ${target.email}, and ended their sessions.`,
  }),
  list('operator mail ls', 'listMails', 'list email that was sent, failed or withheld', {
    columns: ['to', 'about', 'state', { TIME: (one) => utcTime(one.createdAt), ERROR: (one) => one.error ?? '' }],
    flags: { state: 'only messages in this state' },
    examples: ['berth operator mail ls --state failed'],
  }),
  act('operator people invite', 'createSignUpInvitation', 'invite a person to open an account', {
    args: { '<email>': 'email address of the person' },
    examples: ['berth operator people invite second@example.com'],
    done: ({ email, expiresAt }) => `Invited ${email}, until ${utcTime(expiresAt)}.`,
  }),
  list('operator people invitations', 'listSignUpInvitations', 'list open invitations to open an account', {
    columns: ['id', 'email', 'sender', { EXPIRES: (one) => utcTime(one.expiresAt) }],
  }),
  act('operator people revoke', 'revokeSignUpInvitation', 'revoke an invitation to open an account', {
    target: invitation,
    examples: ['berth operator people revoke second@example.com'],
    onWire: (_, { target: { id, email } }) => ({ id, email, revoked: true }),
    done: (_, { target }) => `Revoked the invitation of ${target.email}.`,
  }),
]
