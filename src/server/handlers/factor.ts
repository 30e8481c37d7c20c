/** Passkeys and recovery codes over HTTP; the ceremonies themselves are paths of the console (server/console/passkey-routes.ts). */
import {
  createRecoveryCodes,
  listFactors,
  removePasskey,
  renamePasskey,
  resetFactors,
} from '../../app/person/factor.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { ok } from '../../contract/result.ts'
import type { Passkey } from '../../store/account/passkey.ts'
import { transact } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'

export const factorHandlers = {
  listFactors: async ({ database }, { actor }) => {
    const { passkeys, recoveryCodes } = await listFactors(database.db, actor.personId)
    return ok({ passkeys: passkeys.map(passkeyOnWire), recoveryCodes })
  },

  renamePasskey: async ({ database }, { actor, params, body }) => {
    const renamed = await transact(database, (tx) => renamePasskey(tx, actor, params.id, body.name))
    return renamed.ok ? ok(passkeyOnWire(renamed.value)) : renamed
  },

  removePasskey: async ({ database }, { actor, params }) => {
    const removed = await transact(database, (tx) => removePasskey(tx, actor, params.id))
    return removed.ok ? ok({ message: `The passkey ${removed.value.name} is removed` }) : removed
  },

  createRecoveryCodes: async ({ database }, { actor, setHeader }) => {
    const created = await transact(database, (tx) => createRecoveryCodes(tx, actor))
    if (!created.ok) return created
    setHeader?.('Cache-Control', 'no-store')
    return ok({ codes: [...created.value] })
  },

  resetFactors: async ({ database }, { actor, params, body }) => {
    const reset = await transact(database, (tx) => resetFactors(tx, actor, { id: params.id, reason: body.reason }))
    return reset.ok ? ok({ passkeys: reset.value }) : reset
  },
} satisfies Partial<Handlers>

export function passkeyOnWire(passkey: Passkey): ResponseOf<Api['renamePasskey']> {
  const { id, name, is_synced: isSynced, created_at: createdAt, last_used_at: lastUsedAt } = passkey
  return { id, name, isSynced, createdAt, lastUsedAt }
}
