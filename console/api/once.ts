/**
 * Idempotency keys for creates. A key is kept until something was created with it: after a lost response the same key
 * finds the result, and a rejection does not use the key up. After a success there is a new one.
 */
import { isRefusal } from '../../src/client/error.ts'

const BYTES = 16

/** `crypto.randomUUID` requires HTTPS or localhost. */
export function makeOnceKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(BYTES))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** An earlier attempt succeeded, its response was lost, and this one has a different body. */
export function isFirstDone(error: unknown): boolean {
  return isRefusal(error, 'idempotency_key_reused')
}

/** The key of the next attempt. error null: success. */
export function nextOnceKey(key: string, error: unknown): string {
  return error === null || isFirstDone(error) ? makeOnceKey() : key
}
