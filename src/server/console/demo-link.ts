/**
 * The sign-in link for the demo account, printed at startup. The first browser to open it gets the demo key, so the
 * link is a secret of whoever can read the terminal. Its token works once, for one day, and only its hash is kept. It
 * is in the URL fragment, which browsers do not send, so no proxy log has it.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { DAY_MS, type Clock } from '../../base/instant.ts'
import { sha256 } from '../../base/id.ts'

const LINK_MS = DAY_MS
const TOKEN_BYTES = 32

export interface DemoLink {
  readonly token: string
  /** true once, for the right token before it expires. */
  redeem(token: string): boolean
}

export function makeDemoLink(clock: Clock): DemoLink {
  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  const hash = sha256(token)
  const expiresAt = clock.now() + LINK_MS
  let isUsed = false
  return {
    token,
    redeem: (token) => {
      if (isUsed || clock.now() >= expiresAt || !timingSafeEqual(sha256(token), hash)) return false
      isUsed = true
      return true
    },
  }
}

export function demoLinkUrl(url: string, token: string): string {
  return `${url}/sign-in#welcome=${token}`
}
