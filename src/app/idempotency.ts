/**
 * A create happens once per idempotency key. The first response is written in the transaction of the create itself, so
 * neither exists without the other; a second request with the same key waits for the first to commit.
 */
import { sha256 } from '../base/id.ts'
import { fail, ok, type Result } from '../contract/result.ts'
import { readerOf, writerOf } from '../contract/wire.ts'
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
      if (result.ok) await completeIdempotency(tx, actor.accountId, key, sealResponse(app, once, result.value))
      return result
    }
    const first = await findIdempotency(tx.db, actor.accountId, key)
    if (first === undefined || first.operation !== once.operation || !first.bodyHash.equals(bodyHash)) {
      return fail('idempotency_key_reused')
    }
    return ok(readerOf(once.operation)(JSON.parse(app.vault.open(first.responseSealed))) as T)
  })
}

/** A response is stored as it was sent. */
export function sealResponse({ vault }: Pick<App, 'vault'>, { operation }: Pick<Once, 'operation'>, value: unknown) {
  return vault.seal(JSON.stringify(writerOf(operation)(value)))
}

/** The API key is part of it: a stored response may contain a secret that another key has no right to. */
export function hashRequest(actor: Pick<Actor, 'keyId'>, { request }: Pick<Once, 'request'>): Buffer {
  return sha256(
    JSON.stringify([actor.keyId, request], (_, value: unknown) => (typeof value === 'bigint' ? `${value}` : value)),
  )
}
