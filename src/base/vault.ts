/** Seals small secrets (webhook secrets, upstream keys, stored answers) with AES-256-GCM under the installation's key. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

export interface Vault {
  seal(text: string): string
  /** Throws when the text was sealed under another key or was changed. */
  open(sealed: string): string
  /** A key for one purpose, the same on every server; it reveals neither the secret nor other purposes' keys. */
  derive(purpose: string): Buffer
}

const NONCE_BYTES = 12
const TAG_BYTES = 16

/** `secret` is any text with enough entropy; the cipher's key is derived from it. */
export function makeVault(secret: string): Vault {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'berth vault v1', 32))
  return {
    derive: (purpose) => Buffer.from(hkdfSync('sha256', secret, '', `berth ${purpose} v1`, 32)),
    seal: (text) => {
      const nonce = randomBytes(NONCE_BYTES)
      const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES })
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return `v1.${Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64url')}`
    },
    open: (sealed) => {
      const bytes = Buffer.from(sealed.slice(3), 'base64url')
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES), {
        authTagLength: TAG_BYTES,
      })
      decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
      return decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
    },
  }
}
