/** Account and members over HTTP. */
import { changeAccountSettings, changeMember, getMe, removeMember } from '../../app/account/account.ts'
import { inviteMember } from '../../app/person/invitation.ts'
import { createOnce } from '../../app/idempotency.ts'
import { ok } from '../../contract/result.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { listMembers, type Account, type Member } from '../../store/account/account.ts'
import { transact } from '../../store/platform/database.ts'
import { lastEventId } from '../../store/notice/event.ts'
import type { Handlers } from '../http/handler.ts'

export const accountHandlers = {
  getMe: async (app, { actor }) => {
    // Read before the account, so that the stream reports everything that happens from then on.
    const newestEvent = await lastEventId(app.database.db, actor.accountId)
    const me = await getMe(app, actor)
    if (!me.ok) return me
    const { member, account, key } = me.value
    const { id, email, name, picture, role } = member
    return ok({
      id,
      email,
      name,
      picture,
      role,
      account: accountOnWire(account),
      // These are the effective scopes, not the stored ones: a viewer's key can only read.
      key: {
        publicId: key.public_id,
        kind: key.kind,
        name: key.name,
        scopes: [...actor.scopes],
        expiresAt: key.expires_at,
      },
      lastEventId: String(newestEvent),
    })
  },

  changeAccountSettings: async (app, { actor, body }) => {
    const changed = await transact(app.database, (tx) => changeAccountSettings(tx, actor, body))
    return changed.ok ? ok(accountOnWire(changed.value)) : changed
  },

  listMembers: async (app, { actor }) => {
    const members = await listMembers(app.database.db, actor.accountId)
    return ok({ members: members.map(memberOnWire) })
  },

  addMember: async (app, { operation, actor, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const { email, role } = body
      const result = await inviteMember(app, tx, actor, { email, name: body.name ?? null, role })
      return result.ok ? ok(memberOnWire(result.value)) : result
    }),

  changeMember: async (app, { actor, params, body }) => {
    const changed = await transact(app.database, (tx) =>
      changeMember(tx, actor, { personId: params.id, role: body.role }),
    )
    return changed.ok ? ok(memberOnWire(changed.value)) : changed
  },

  removeMember: async (app, { actor, params }) => {
    const removed = await transact(app.database, (tx) => removeMember(tx, actor, params.id))
    return removed.ok ? ok({ message: 'Member removed; their keys in this account are revoked' }) : removed
  },
} satisfies Partial<Handlers>

export function accountOnWire(account: Account): ResponseOf<Api['getMe']>['account'] {
  return {
    id: account.id,
    name: account.name,
    createdAt: account.created_at,
    suspended: account.suspended_at !== null,
    supplier: account.platform_fee_bp !== null,
    keepsBodies: account.keeps_bodies,
    storesResponses: account.stores_responses,
    requiresFactor: account.requires_factor,
  }
}

function memberOnWire(member: Member): ResponseOf<Api['addMember']> {
  const { id, email, name, picture, role } = member
  const state = member.accepted_at === null ? 'invited' : 'active'
  return { id, email, name, picture, role, state, hasPasskey: member.has_passkey, createdAt: member.created_at }
}
