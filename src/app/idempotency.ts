/**
 * A create happens once per idempotency key. The first response is written in the transaction of the create itself, so
 * neither exists without the other; a second request with the same key waits for the first to commit.
 */
import { sha256 } from '../base/id.ts'
import { fail, ok, type Result } from '../contract/result.ts'
import { transact, type Tx } from '../store/platform/database.ts'
import { completeIdempotency, findIdempotency, startIdempotency } from '../store/platform/idempotency.ts'
import type { Actor, App, Once } from './app.ts'

/** Runs `work` in a transaction, or returns its first result. */
export async function createOnce<T>(
  app: App,
  actor: Actor,
  once: Once,
  work: (tx: Tx) => Promise<Result<T>>,
): Promise<Result<T>> {
  const { key } = once
  if (key === undefined) return transact(app.database, work)
  const bodyHash = hashRequest(actor, once)
  return transact(app.database, async (tx): Promise<Result<T>> => {
    const started = await startIdempotency(tx, { accountId: actor.accountId, key, operation: once.operation, bodyHash })
    if (started) {
      const result = await work(tx)
      if (result.ok) await completeIdempotency(tx, actor.accountId, key, app.vault.seal(JSON.stringify(result.value)))
      return result
    }
    const first = await findIdempotency(tx.db, actor.accountId, key)
    if (first === undefined || first.operation !== once.operation || !first.bodyHash.equals(bodyHash)) {
      return fail('idempotency_key_reused')
    }
    return ok(JSON.parse(app.vault.open(first.responseSealed)) as T)
  })
}

/** The API key is part of it: a stored response may contain a secret that another key has no right to. */
export function hashRequest(actor: Pick<Actor, 'keyId'>, { request }: Pick<Once, 'request'>): Buffer {
  return sha256(JSON.stringify([actor.keyId, request]))
}
