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
    const ownPort = await findOwnPort(app.database.db, actor, params.id, params.port)
    if (!ownPort.ok) return ownPort
    const { rental, port } = ownPort.value
    const origin = app.portUrl?.(rental.name, port.port)
    if (origin === undefined) return fail('no_apps_domain')
    if (port.access === 'public') return ok({ url: origin + body.path, expiresAt: null })
    const { code, expiresAt } = await transact(app.database, (tx) => createPortCode(tx, actor, ownPort.value))
    const query = new URLSearchParams({ code, ...(body.path === '/' ? {} : { path: body.path }) })
    return ok({ url: `${origin}${PORT_OPEN_PATH}?${query.toString()}`, expiresAt })
  },

  listPortTokens: async (app, { actor, params }) => {
    const ownPort = await findOwnPort(app.database.db, actor, params.id, params.port)
    if (!ownPort.ok) return ownPort
    const tokens = await listPortTokens(app.database.db, ownPort.value.rental.id, params.port)
    return ok({ tokens: tokens.map(tokenOnWire) })
  },

  createPortToken: (app, { operation, actor, params, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { params, body } }, async (tx) => {
      const ownPort = await findOwnPort(tx.db, actor, params.id, params.port)
      if (!ownPort.ok) return ownPort
      const created = await createPortToken(tx, actor, ownPort.value, {
        name: body.name,
        expiresAt: body.expiresAt ?? null,
      })
      return created.ok ? ok({ ...tokenOnWire(created.value.token), token: created.value.text }) : created
    }),

  revokePortToken: async (app, { actor, params }) => {
    const ownPort = await findOwnPort(app.database.db, actor, params.id, params.port)
    if (!ownPort.ok) return ownPort
    const revoked = await transact(app.database, (tx) => revokePortToken(tx, ownPort.value, params.tokenId))
    return revoked.ok ? ok({ message: 'Token revoked' }) : revoked
  },
} satisfies Partial<Handlers>

function tokenOnWire({ id, name, last4, created_at: createdAt, expires_at: expiresAt }: PortToken) {
  return { id, name, last4, createdAt, expiresAt }
}
