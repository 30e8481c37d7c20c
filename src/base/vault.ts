/** Seals small secrets (webhook secrets, upstream keys, stored answers) with AES-256-GCM under the installation's key. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

export interface Vault {
  seal(text: string): string
  /** Throws when the text was sealed under an unknown key or was changed. */
  open(sealed: string): string
  /**
   * Seals the text again under the current key. undefined: it is sealed under that key already. Throws as `open` does.
   */
  reseal(sealed: string): string | undefined
  /** A key for one purpose, the same on every server; it reveals neither the secret nor other purposes' keys. */
  derive(purpose: string): Buffer
  /** The keys for one purpose from the current and the older secrets, to check earlier signatures. */
  deriveAll(purpose: string): readonly Buffer[]
}

const NONCE_BYTES = 12
const TAG_BYTES = 16

/**
 * `secret` is any text with enough entropy; the cipher's key is derived from it. During a change of the secret, texts
 * under the `others` can be opened too.
 */
export function makeVault(secret: string, others: readonly string[] = []): Vault {
  const keys = [secret, ...others].map((one) => Buffer.from(hkdfSync('sha256', one, '', 'berth vault v1', 32)))
  const [key = Buffer.alloc(0), ...otherKeys] = keys
  const seal = (text: string): string => {
    const nonce = randomBytes(NONCE_BYTES)
    const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES })
    const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
    return `v1.${Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64url')}`
  }
  const openOther = (sealed: string, cause: unknown): string => {
    for (const other of otherKeys) {
      try {
        return openWith(other, sealed)
      } catch {
        // The text may be sealed under another of the keys.
      }
    }
    throw cause
  }
  const deriveFrom = (one: string, purpose: string): Buffer =>
    Buffer.from(hkdfSync('sha256', one, '', `berth ${purpose} v1`, 32))
  return {
    seal,
    open: (sealed) => {
      try {
        return openWith(key, sealed)
      } catch (error) {
        return openOther(sealed, error)
      }
    },
    reseal: (sealed) => {
      try {
        openWith(key, sealed)
        return undefined
      } catch (error) {
        return seal(openOther(sealed, error))
      }
    },
    derive: (purpose) => deriveFrom(secret, purpose),
    deriveAll: (purpose) => [secret, ...others].map((one) => deriveFrom(one, purpose)),
  }
}

function openWith(key: Buffer, sealed: string): string {
  const bytes = Buffer.from(sealed.slice(3), 'base64url')
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
  decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
  return decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
}
