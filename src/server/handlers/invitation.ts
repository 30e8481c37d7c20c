/** Invitations over HTTP. */
import { createOnce } from '../../app/idempotency.ts'
import { createInvitation, createSignUpInvitation, revokeInvitation } from '../../app/person/invitation.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { ok } from '../../contract/result.ts'
import { listInvitationsOf, type Invitation } from '../../store/account/invitation.ts'
import { transact } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'

export const invitationHandlers = {
  listInvitations: async ({ database, clock }, { actor }) => {
    const invitations = await listInvitationsOf(database.db, actor.accountId, clock.now())
    return ok({ invitations: invitations.map(invitationOnWire) })
  },

  createInvitation: async (app, { operation, actor, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const sent = await createInvitation(app, tx, actor, body)
      return sent.ok ? ok(invitationOnWire(sent.value)) : sent
    }),

  revokeInvitation: async ({ database }, { actor, params }) => {
    const which = { id: params.id, accountId: actor.accountId }
    const revoked = await transact(database, (tx) => revokeInvitation(tx, actor, which))
    return revoked.ok ? ok({ message: `The invitation of ${revoked.value.email} is revoked` }) : revoked
  },

  listSignUpInvitations: async ({ database, clock }) => {
    const invitations = await listInvitationsOf(database.db, null, clock.now())
    return ok({ invitations: invitations.map(invitationOnWire) })
  },

  createSignUpInvitation: async (app, { operation, actor, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const sent = await createSignUpInvitation(app, tx, actor, body.email)
      return sent.ok ? ok(invitationOnWire(sent.value)) : sent
    }),

  revokeSignUpInvitation: async ({ database }, { actor, params }) => {
    const which = { id: params.id, accountId: null }
    const revoked = await transact(database, (tx) => revokeInvitation(tx, actor, which))
    return revoked.ok ? ok({ message: `The invitation of ${revoked.value.email} is revoked` }) : revoked
  },
} satisfies Partial<Handlers>

function invitationOnWire(invitation: Invitation): ResponseOf<Api['createInvitation']> {
  const { id, email, role, senderEmail: sender, createdAt, expiresAt } = invitation
  return { id, email, role, sender, createdAt, expiresAt }
}
