/** Joining with a host over HTTP. */
import { installCommand } from '../../base/install-command.ts'
import { ok } from '../../contract/result.ts'
import { createJoinToken, joinHost, revokeJoinToken } from '../../app/supply/host.ts'
import { createOnce } from '../../app/idempotency.ts'
import { transact } from '../../store/platform/database.ts'
import { listJoinTokens, type JoinToken } from '../../store/host/join-token.ts'
import { badCursor, decodeCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'

export const joinTokenHandlers = {
  joinHost: async (app, { body }) => {
    const joined = await transact(app.database, (tx) => joinHost(tx, body))
    return joined.ok ? ok({ hostId: joined.value, installation: app.installationId }) : joined
  },

  listJoinTokens: async (app, { actor, query }) => {
    const after = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
    if (query.cursor !== undefined && after === undefined) return badCursor()
    const tokens = await listJoinTokens(app.database.db, {
      accountId: actor.accountId,
      ...(after === undefined ? {} : { after }),
      limit: rowsToAsk(query.limit),
    })
    const page = pageOf(tokens, query.limit, (token) => token.id)
    return ok({ tokens: page.rows.map(tokenRecord), nextCursor: page.nextCursor })
  },

  createJoinToken: (app, { actor, body, operation, idempotencyKey, baseUrl }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: body }, async (tx) => {
      const created = await createJoinToken(tx, actor, body)
      if (!created.ok) return created
      const { token, text } = created.value
      const command =
        baseUrl === undefined ? `berth agent join --token ${text}` : installCommand(baseUrl, { token: text })
      return ok({ ...tokenRecord(token), token: text, command })
    }),

  revokeJoinToken: async (app, { actor, params }) => {
    const revoked = await transact(app.database, (tx) => revokeJoinToken(tx, actor, params.id))
    return revoked.ok ? ok({ message: 'Join token revoked' }) : revoked
  },
} satisfies Partial<Handlers>

function tokenRecord(token: JoinToken) {
  return {
    id: token.id,
    createdAt: token.created_at,
    expiresAt: token.expires_at,
    usesLeft: token.uses_left,
    supplierId: token.supplier_id,
  }
}
