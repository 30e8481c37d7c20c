/** Account, members and keys over HTTP. */
import { addMember, changeAccountSettings, changeMember, getMe, removeMember } from '../../app/account/account.ts'
import { createApiKey, revokeApiKey } from '../../app/account/api-key.ts'
import { createOnce } from '../../app/idempotency.ts'
import { addSshKey, deleteSshKey } from '../../app/account/ssh-key.ts'
import { formatInstant, formatInstantOrNull, parseInstant } from '../../base/instant.ts'
import { formatUsd, parseUsd, type NanoUsd } from '../../base/money.ts'
import { ok } from '../../contract/result.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { listMembers, type Account, type Member } from '../../store/account/account.ts'
import { listApiKeys, type ApiKey } from '../../store/account/api-key.ts'
import { transact } from '../../store/platform/database.ts'
import { lastEventId } from '../../store/notice/event.ts'
import { listSshKeys, type SshKey } from '../../store/account/ssh-key.ts'
import type { Handlers } from '../http/handler.ts'

export const accountHandlers = {
  getMe: async (app, { actor }) => {
    // Read first: the stream then reports anything that happens meanwhile.
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
      // The effective scopes, not the stored ones: a viewer's key can only read.
      key: { publicId: key.public_id, name: key.name, scopes: [...actor.scopes] },
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
      const added = await addMember(tx, actor, { email, name: body.name ?? null, role })
      return added.ok ? ok(memberOnWire(added.value)) : added
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

  listApiKeys: async (app, { actor }) => {
    const keys = await listApiKeys(app.database.db, actor.accountId)
    return ok({ apiKeys: keys.map(apiKeyOnWire) })
  },

  createApiKey: async (app, { operation, actor, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const made = await createApiKey(tx, actor, {
        name: body.name,
        memberId: body.memberId,
        scopes: body.scopes,
        expiresAt: body.expiresAt === undefined ? null : (parseInstant(body.expiresAt) ?? null),
        allowedModels: body.allowedModels ?? null,
        monthlyLimit: usdOrNull(body.monthlyLimitUsd),
        totalLimit: usdOrNull(body.totalLimitUsd),
        requestsPerMinute: body.requestsPerMinute ?? null,
        tokensPerMinute: body.tokensPerMinute ?? null,
      })
      return made.ok ? ok({ ...apiKeyOnWire(made.value.key), key: made.value.text }) : made
    }),

  revokeApiKey: async (app, { actor, params }) => {
    const revoked = await transact(app.database, (tx) => revokeApiKey(tx, actor, params.id))
    return revoked.ok ? ok(apiKeyOnWire(revoked.value)) : revoked
  },

  listSshKeys: async (app, { actor }) => {
    const keys = await listSshKeys(app.database.db, actor.accountId)
    return ok({ sshKeys: keys.map(sshKeyOnWire) })
  },

  addSshKey: async (app, { operation, actor, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const added = await addSshKey(tx, actor, body)
      return added.ok ? ok(sshKeyOnWire(added.value)) : added
    }),

  deleteSshKey: async (app, { actor, params }) => {
    const deleted = await transact(app.database, (tx) => deleteSshKey(tx, actor, params.id))
    return deleted.ok ? ok({ message: 'SSH key deleted; running machines keep it' }) : deleted
  },
} satisfies Partial<Handlers>

export function accountOnWire(account: Account): ResponseOf<Api['getMe']>['account'] {
  return {
    id: account.id,
    name: account.name,
    createdAt: formatInstant(account.created_at),
    suspended: account.suspended_at !== null,
    supplier: account.platform_fee_bp !== null,
    keepsBodies: account.keeps_bodies,
  }
}

function memberOnWire(member: Member): ResponseOf<Api['addMember']> {
  const { id, email, name, picture, role } = member
  return { id, email, name, picture, role, createdAt: formatInstant(member.created_at) }
}

function apiKeyOnWire(key: ApiKey): ResponseOf<Api['revokeApiKey']> {
  return {
    publicId: key.public_id,
    memberId: key.person_id,
    name: key.name,
    last4: key.last4,
    scopes: key.scopes,
    allowedModels: key.allowed_models,
    monthlyLimitUsd: usdTextOrNull(key.monthly_limit_nano),
    totalLimitUsd: usdTextOrNull(key.total_limit_nano),
    requestsPerMinute: key.requests_per_min,
    tokensPerMinute: key.tokens_per_min,
    createdAt: formatInstant(key.created_at),
    expiresAt: formatInstantOrNull(key.expires_at),
    lastUsedAt: formatInstantOrNull(key.last_used_at),
    revokedAt: formatInstantOrNull(key.revoked_at),
  }
}

function sshKeyOnWire(key: SshKey): ResponseOf<Api['addSshKey']> {
  const { id, name, fingerprint } = key
  return { id, name, publicKey: key.public_key, fingerprint, createdAt: formatInstant(key.created_at) }
}

/** The contract has validated the text. */
function usdOrNull(text: string | undefined): NanoUsd | null {
  return text === undefined ? null : (parseUsd(text) ?? null)
}

function usdTextOrNull(amount: NanoUsd | null): string | null {
  return amount === null ? null : formatUsd(amount)
}
