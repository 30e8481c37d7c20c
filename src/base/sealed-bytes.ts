/**
 * Seals large content piece by piece with AES-256-GCM under a separate key. The vault seals only that key, so a change
 * of the installation's secret touches one small value and not the content. Each piece is bound to its number, so that
 * pieces cannot be swapped.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** The key is text, so that the vault can seal it. */
export function newContentKey(): string {
  return randomBytes(KEY_BYTES).toString('base64url')
}

export function sealPiece(key: string, number: number, bytes: Uint8Array): Buffer {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', Buffer.from(key, 'base64url'), nonce, { authTagLength: TAG_BYTES })
  cipher.setAAD(numberBytes(number))
  const body = cipher.update(bytes)
  cipher.final()
  return Buffer.concat([nonce, cipher.getAuthTag(), body])
}

/** Throws if the piece was changed, or is not the one with this number. */
export function openPiece(key: string, number: number, sealed: Uint8Array): Buffer {
  const nonce = sealed.subarray(0, NONCE_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', Buffer.from(key, 'base64url'), nonce, { authTagLength: TAG_BYTES })
  decipher.setAAD(numberBytes(number))
  decipher.setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
  const bytes = decipher.update(sealed.subarray(NONCE_BYTES + TAG_BYTES))
  decipher.final()
  return bytes
}

function numberBytes(number: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(number)
  return bytes
}
