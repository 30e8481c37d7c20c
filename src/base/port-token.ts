/** Tokens for one HTTP port of a rental: `bpt_<secret>`. Only the SHA-256 of the whole text is stored. */
import { randomBytes } from 'node:crypto'
import { base62, sha256 } from './id.ts'

export const PORT_TOKEN_PREFIX = 'bpt_'
const SECRET_BYTES = 32
const form = /^bpt_[0-9A-Za-z]{43}$/

export interface NewPortToken {
  /** Shown once. */
  readonly text: string
  readonly hash: Buffer
  readonly last4: string
}

export function makePortToken(): NewPortToken {
  const text = PORT_TOKEN_PREFIX + base62(randomBytes(SECRET_BYTES))
  return { text, hash: sha256(text), last4: text.slice(-4) }
}

/** undefined: not a token. */
export function hashPortToken(text: string): Buffer | undefined {
  return form.test(text) ? sha256(text) : undefined
}
