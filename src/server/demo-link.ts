/**
 * The link that a start prints for the demo account of a trial. Whoever opens it first gets the demo key: only who sees
 * the terminal has it, wherever the browser is and whatever proxy is in between. Its token works once and for a day,
 * and only its hash is kept. The token stands behind a `#`, so no proxy and no log sees it before the page sends it.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { DAY_MS, type Clock } from '../base/instant.ts'
import { sha256 } from '../base/id.ts'

const LINK_MS = DAY_MS
const TOKEN_BYTES = 32

export interface DemoLink {
  /** For the printed address, and for nothing else. */
  readonly token: string
  /** Whether this is the token, for the first time and in time. */
  redeem(token: string): boolean
}

export function makeDemoLink(clock: Clock): DemoLink {
  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  const hash = sha256(token)
  const expiresAt = clock.now() + LINK_MS
  let isUsed = false
  return {
    token,
    redeem: (given) => {
      if (isUsed || clock.now() >= expiresAt || !timingSafeEqual(sha256(given), hash)) return false
      isUsed = true
      return true
    },
  }
}

export function demoLinkUrl(url: string, token: string): string {
  return `${url}/sign-in#welcome=${token}`
}
