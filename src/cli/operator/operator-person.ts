/** `berth operator people`: invitations to open an account. */
import { utcTime } from '../../view/time.ts'
import { act, list } from '../kit/row.ts'
import { targetOf } from '../kit/target.ts'
import type { Row } from '../kit/row-type.ts'

const invitation = targetOf('invitation', 'berth operator people invitations', {
  read: async (client) => (await client.call('listSignUpInvitations')).invitations,
  id: 'id',
  name: 'email',
  named: 'email address',
})

export const rows: readonly Row[] = [
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
