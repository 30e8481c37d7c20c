/**
 * Values that travel through a client and come back unchanged or not at all: quotes, and the state of a question. They
 * are signed under the installation's key, so every server reads them, and are not secret: the client can read them.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Vault } from '../../base/vault.ts'

const PREFIX = 'b1.'

export function signText(vault: Vault, purpose: string, value: unknown): string {
  const body = Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${PREFIX}${body}.${macOf(vault.derive(purpose), body).toString('base64url')}`
}

/** undefined: not signed here for this purpose, or changed since. */
export function readSigned(vault: Vault, purpose: string, text: string): unknown {
  const [body = '', mac = '', ...others] = text.startsWith(PREFIX) ? text.slice(PREFIX.length).split('.') : []
  const bytes = Buffer.from(mac, 'base64url')
  const isOurs =
    others.length === 0 &&
    vault.deriveAll(purpose).some((key) => {
      const expected = macOf(key, body)
      return bytes.length === expected.length && timingSafeEqual(bytes, expected)
    })
  return isOurs ? JSON.parse(Buffer.from(body, 'base64url').toString()) : undefined
}

function macOf(key: Buffer, body: string): Buffer {
  return createHmac('sha256', key).update(body).digest()
}
