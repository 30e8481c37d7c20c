/** A key for a create that must not happen twice. `crypto.randomUUID` is only there over https and on localhost. */
const BYTES = 16

export function makeOnceKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(BYTES))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
