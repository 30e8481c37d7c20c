/** SSH keys over HTTP. */
import { createOnce } from '../../app/idempotency.ts'
import { addSshKey, deleteSshKey } from '../../app/account/ssh-key.ts'
import { ok } from '../../contract/result.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { transact } from '../../store/platform/database.ts'
import { listSshKeys, type SshKey } from '../../store/account/ssh-key.ts'
import type { Handlers } from '../http/handler.ts'

export const sshKeyHandlers = {
  listSshKeys: async (app, { actor }) => {
    const keys = await listSshKeys(app.database.db, actor.accountId)
    return ok({ sshKeys: keys.map(sshKeyOnWire) })
  },

  addSshKey: async (app, { operation, actor, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const result = await addSshKey(tx, actor, body)
      return result.ok ? ok(sshKeyOnWire(result.value)) : result
    }),

  deleteSshKey: async (app, { actor, params }) => {
    const deleted = await transact(app.database, (tx) => deleteSshKey(tx, actor, params.id))
    return deleted.ok ? ok({ message: 'SSH key deleted; running machines keep it' }) : deleted
  },
} satisfies Partial<Handlers>

function sshKeyOnWire(key: SshKey): ResponseOf<Api['addSshKey']> {
  const { id, name, fingerprint } = key
  return { id, name, publicKey: key.public_key, fingerprint, createdAt: key.created_at }
}
