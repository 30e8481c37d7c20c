/**
 * A join token: `bj_<secret><checksum>`. The checksum distinguishes a typo from a used token without a lookup. Only the SHA-256 of the secret is ever stored.
 */
import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { base62, sha256 } from './id.ts'

const SECRET_CHARS = 43
const CHECKSUM_CHARS = 6
const form = new RegExp(`^bj_([0-9A-Za-z]{${SECRET_CHARS}})([0-9A-Za-z]{${CHECKSUM_CHARS}})$`)

export interface NewJoinToken {
  readonly id: string
  /** The whole token, shown once. */
  readonly text: string
  readonly hash: Buffer
}

export function makeJoinToken(): NewJoinToken {
  const secret = base62(randomBytes(32))
  return {
    id: `jtk_${base62(randomBytes(15))}`,
    text: `bj_${secret}${checksum(secret)}`,
    hash: sha256(secret),
  }
}

/** The hash that is stored. undefined: not a join token, or mistyped. */
export function hashJoinToken(text: string): Buffer | undefined {
  const [, secret, sum] = form.exec(text) ?? []
  return secret === undefined || checksum(secret) !== sum ? undefined : sha256(secret)
}

function checksum(secret: string): string {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(crc32(secret))
  return base62(bytes).padStart(CHECKSUM_CHARS, '0')
}
