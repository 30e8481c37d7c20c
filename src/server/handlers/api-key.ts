/** API keys over HTTP. */
import { createApiKey, revokeApiKey, rotateApiKey } from '../../app/account/api-key.ts'
import { createOnce } from '../../app/idempotency.ts'
import { ok } from '../../contract/result.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { listApiKeys, type ApiKey } from '../../store/account/api-key.ts'
import { transact } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'

export const apiKeyHandlers = {
  listApiKeys: async (app, { actor }) => {
    const keys = await listApiKeys(app.database.db, actor.accountId)
    return ok({ apiKeys: keys.map(apiKeyOnWire) })
  },

  createApiKey: async (app, { operation, actor, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const created = await createApiKey(tx, actor, {
        name: body.name,
        memberId: body.memberId,
        scopes: body.scopes,
        expiresAt: body.expiresAt ?? null,
        allowedModels: body.allowedModels ?? null,
        allowedOrigins: body.allowedOrigins ?? [],
        monthlyLimit: body.monthlyLimitUsd ?? null,
        totalLimit: body.totalLimitUsd ?? null,
        class: body.class,
        requestsPerMinute: body.requestsPerMinute ?? null,
        tokensPerMinute: body.tokensPerMinute ?? null,
      })
      return created.ok ? ok({ ...apiKeyOnWire(created.value.key), key: created.value.text }) : created
    }),

  rotateApiKey: async (app, { operation, actor, params, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { params, body } }, async (tx) => {
      const rotated = await rotateApiKey(tx, actor, params.id, body.graceHours)
      return rotated.ok ? ok({ ...apiKeyOnWire(rotated.value.key), key: rotated.value.text }) : rotated
    }),

  revokeApiKey: async (app, { actor, params }) => {
    const revoked = await transact(app.database, (tx) => revokeApiKey(tx, actor, params.id))
    return revoked.ok ? ok(apiKeyOnWire(revoked.value)) : revoked
  },
} satisfies Partial<Handlers>

function apiKeyOnWire(key: ApiKey): ResponseOf<Api['revokeApiKey']> {
  return {
    publicId: key.public_id,
    memberId: key.person_id,
    kind: key.kind === 'device' ? 'device' : 'key',
    name: key.name,
    last4: key.last4,
    scopes: key.scopes,
    allowedModels: key.allowed_models,
    allowedOrigins: key.allowed_origins,
    monthlyLimitUsd: key.monthly_limit_nano,
    totalLimitUsd: key.total_limit_nano,
    class: key.class,
    requestsPerMinute: key.requests_per_min,
    tokensPerMinute: key.tokens_per_min,
    createdAt: key.created_at,
    expiresAt: key.expires_at,
    lastUsedAt: key.last_used_at,
    revokedAt: key.revoked_at,
    graceEndsAt: key.old_secret_until,
  }
}
