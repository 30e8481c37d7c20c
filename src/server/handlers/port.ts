/** HTTP ports of rentals over HTTP. */
import { PORT_OPEN_PATH } from '../../contract/port.ts'
import { fail, ok } from '../../contract/result.ts'
import { createOnce } from '../../app/idempotency.ts'
import { createPortCode, createPortToken, findOwnPort, revokePortToken } from '../../app/rental/port.ts'
import { transact } from '../../store/platform/database.ts'
import { listPortTokens, type PortToken } from '../../store/rental/port.ts'
import type { Handlers } from '../http/handler.ts'

export const portHandlers = {
  openRentalPort: async (app, { actor, params, body }) => {
    const found = await findOwnPort(app.database.db, actor, params.id, params.port)
    if (!found.ok) return found
    const { rental, port } = found.value
    const origin = app.portUrl?.(rental.name, port.port)
    if (origin === undefined) return fail('no_apps_domain')
    if (port.access === 'public') return ok({ url: origin + body.path, expiresAt: null })
    const { code, expiresAt } = await transact(app.database, (tx) => createPortCode(tx, actor, found.value))
    const query = new URLSearchParams({ code, ...(body.path === '/' ? {} : { path: body.path }) })
    return ok({ url: `${origin}${PORT_OPEN_PATH}?${query.toString()}`, expiresAt })
  },

  listPortTokens: async (app, { actor, params }) => {
    const found = await findOwnPort(app.database.db, actor, params.id, params.port)
    if (!found.ok) return found
    const tokens = await listPortTokens(app.database.db, found.value.rental.id, params.port)
    return ok({ tokens: tokens.map(tokenOnWire) })
  },

  createPortToken: (app, { operation, actor, params, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { params, body } }, async (tx) => {
      const found = await findOwnPort(tx.db, actor, params.id, params.port)
      if (!found.ok) return found
      const made = await createPortToken(tx, actor, found.value, { name: body.name, expiresAt: body.expiresAt ?? null })
      return made.ok ? ok({ ...tokenOnWire(made.value.token), token: made.value.text }) : made
    }),

  revokePortToken: async (app, { actor, params }) => {
    const found = await findOwnPort(app.database.db, actor, params.id, params.port)
    if (!found.ok) return found
    const revoked = await transact(app.database, (tx) => revokePortToken(tx, found.value, params.tokenId))
    return revoked.ok ? ok({ message: 'Token revoked' }) : revoked
  },
} satisfies Partial<Handlers>

function tokenOnWire({ id, name, last4, created_at: createdAt, expires_at: expiresAt }: PortToken) {
  return { id, name, last4, createdAt, expiresAt }
}
