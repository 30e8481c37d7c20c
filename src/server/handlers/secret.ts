/** Secrets and registry logins over HTTP. */
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { ok } from '../../contract/result.ts'
import { createOnce } from '../../app/idempotency.ts'
import { addRegistryCredential, deleteRegistryCredential, deleteSecret, setSecret } from '../../app/account/secret.ts'
import { transact } from '../../store/platform/database.ts'
import {
  listRegistryCredentials,
  listSecrets,
  listSecretUses,
  type RegistryCredential,
  type Secret,
} from '../../store/account/secret.ts'
import type { Handlers } from '../http/handler.ts'

export const secretHandlers = {
  listSecrets: async (app, { actor }) => {
    const { db } = app.database
    const [secrets, uses] = await Promise.all([listSecrets(db, actor.accountId), listSecretUses(db, actor.accountId)])
    return ok({ secrets: secrets.map((secret) => secretOnWire(secret, uses)) })
  },

  setSecret: async (app, { actor, params, body }) => {
    const set = await transact(app.database, (tx) => setSecret(app, tx, actor, params.name, body.value))
    if (!set.ok) return set
    return ok(secretOnWire(set.value, await listSecretUses(app.database.db, actor.accountId)))
  },

  deleteSecret: async (app, { actor, params }) => {
    const deleted = await transact(app.database, (tx) => deleteSecret(tx, actor, params.name))
    return deleted.ok ? ok({ message: `Secret ${params.name} deleted` }) : deleted
  },

  listRegistryCredentials: async (app, { actor }) => {
    const logins = await listRegistryCredentials(app.database.db, actor.accountId)
    return ok({ registryCredentials: logins.map(loginOnWire) })
  },

  addRegistryCredential: (app, { actor, body, operation, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const result = await addRegistryCredential(app, tx, actor, body)
      return result.ok ? ok(loginOnWire(result.value)) : result
    }),

  deleteRegistryCredential: async (app, { actor, params }) => {
    const deleted = await transact(app.database, (tx) => deleteRegistryCredential(tx, actor, params.id))
    return deleted.ok ? ok({ message: 'Registry login deleted' }) : deleted
  },
} satisfies Partial<Handlers>

function secretOnWire(secret: Secret, uses: ReadonlyMap<string, number[]>): ResponseOf<Api['setSecret']> {
  return {
    name: secret.name,
    createdAt: secret.created_at,
    updatedAt: secret.updated_at,
    rentals: uses.get(secret.name) ?? [],
  }
}

function loginOnWire(login: RegistryCredential): ResponseOf<Api['addRegistryCredential']> {
  const { id, name, server, username } = login
  return { id, name, server, username, createdAt: login.created_at }
}
