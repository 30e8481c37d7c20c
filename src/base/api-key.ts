/**
 * The format of an API key: `bk_<public id>_<secret><checksum>`. The checksum tells a typo from a revoked key without a
 * look-up and lets secret scanners match with certainty. Only the SHA-256 of the secret is ever stored.
 */
import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { base62, sha256 } from './id.ts'

export const API_KEY_PREFIX = 'bk_'
const PUBLIC_ID_CHARS = 14
const SECRET_CHARS = 43
const CHECKSUM_CHARS = 6
const form = new RegExp(
  `^${API_KEY_PREFIX}([0-9A-Za-z]{${PUBLIC_ID_CHARS}})_([0-9A-Za-z]{${SECRET_CHARS}})([0-9A-Za-z]{${CHECKSUM_CHARS}})$`,
)

export interface ApiKeyParts {
  readonly publicId: string
  readonly secretHash: Buffer
}

export interface NewApiKey extends ApiKeyParts {
  /** The whole key, which is shown once. */
  readonly text: string
  readonly last4: string
}

/** `publicId`: of a key that gets another secret. */
export function makeApiKey(publicId = base62(randomBytes(10))): NewApiKey {
  const secret = base62(randomBytes(32))
  const text = `${API_KEY_PREFIX}${publicId}_${secret}${checksum(publicId, secret)}`
  return { text, publicId, secretHash: sha256(secret), last4: text.slice(-4) }
}

export type ParsedApiKey = { kind: 'key'; key: ApiKeyParts } | { kind: 'not_a_key' } | { kind: 'typo' }

export function parseApiKey(text: string): ParsedApiKey {
  const match = form.exec(text)
  if (!match) return { kind: 'not_a_key' }
  const [, publicId = '', secret = '', sum = ''] = match
  if (checksum(publicId, secret) !== sum) return { kind: 'typo' }
  return { kind: 'key', key: { publicId, secretHash: sha256(secret) } }
}

function checksum(publicId: string, secret: string): string {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(crc32(`${publicId}${secret}`))
  return base62(bytes).padStart(CHECKSUM_CHARS, '0')
}
