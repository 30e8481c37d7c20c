/**
 * Keys of creates that must not happen twice. One key is kept for as long as nobody has said that it was used: an answer
 * that was lost can be asked for again, and a refusal has used nothing up, since the server forgets the key with it.
 * Only when something was made under the key, by this try or by one before whose answer was lost, there is a new one.
 */
import { isRefusal } from '../../src/client/error.ts'

const BYTES = 16

/** `crypto.randomUUID` is only there over https and on localhost. */
export function makeOnceKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(BYTES))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** What was sent before went through, though its answer was lost; what is sent now is something else. */
export function isFirstDone(error: unknown): boolean {
  return isRefusal(error, 'idempotency_key_reused')
}

/** The key of the next try, after one that ended so. null: it went through. */
export function nextOnceKey(key: string, error: unknown): string {
  return error === null || isFirstDone(error) ? makeOnceKey() : key
}
