/**
 * The credentials of a request: the Authorization header, else `x-api-key`, else the console's session cookie. Browsers
 * also send cookies with requests that other sites cause. So the cookie counts only on requests from the console's own
 * pages: browsers send `Sec-Fetch-Site` and `Origin`, which no page can change, and a change needs a header that no
 * form can send.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { CONSOLE_HEADER, CONSOLE_HEADER_VALUE } from '../../contract/session.ts'

export type Credentials =
  | { readonly kind: 'none' }
  | { readonly kind: 'authorization'; readonly header: string }
  /** A bare key, as in `x-api-key` or as typed on the sign-in page. */
  | { readonly kind: 'key'; readonly text: string }
  | { readonly kind: 'session'; readonly token: string }
  /** Proven before: something that we have signed names the key. */
  | { readonly kind: 'proven'; readonly keyId: string }
  /** A session cookie on a request that the console did not send. */
  | { readonly kind: 'cross-site' }

/** The parts of a request that hold or restrict credentials. */
export interface Sent {
  readonly headers: IncomingHttpHeaders
  readonly method: string
  /** The host and port that the client used. */
  readonly host: string
}

export const SESSION_COOKIE = 'berth_session'
const consoleHeader = CONSOLE_HEADER.toLowerCase()

export function credentialsOf(sent: Sent): Credentials {
  const { authorization, 'x-api-key': apiKey } = sent.headers
  if (authorization !== undefined) return { kind: 'authorization', header: authorization }
  if (typeof apiKey === 'string') return { kind: 'key', text: apiKey }
  const token = sessionTokenOf(sent.headers)
  if (token === undefined) return { kind: 'none' }
  return isCrossSite(sent) ? { kind: 'cross-site' } : { kind: 'session', token }
}

/** Tells whether another site may have caused the request. Requests without browser headers come from programs. */
export function isCrossSite(sent: Sent): boolean {
  const { headers, method } = sent
  const isRead = method === 'GET' || method === 'HEAD'
  const site = headers['sec-fetch-site']
  // `none` means typed into the address bar, or a bookmark.
  if (site !== undefined && site !== 'same-origin' && !(isRead && site === 'none')) return true
  if (headers.origin !== undefined && !isOwnOrigin(sent)) return true
  return !isRead && headers[consoleHeader] !== CONSOLE_HEADER_VALUE
}

/** Tells whether the request comes from a page of this server. */
export function isOwnOrigin({ headers: { origin }, host }: Pick<Sent, 'headers' | 'host'>): boolean {
  return origin !== undefined && URL.canParse(origin) && new URL(origin).host === host.toLowerCase()
}

export function sessionTokenOf(headers: IncomingHttpHeaders): string | undefined {
  for (const one of headers.cookie?.split(';') ?? []) {
    const [name, value = ''] = one.trim().split('=', 2)
    if (name === SESSION_COOKIE && value !== '') return value
  }
  return undefined
}

/** The `Set-Cookie` value. An empty token deletes the cookie. */
export function sessionCookie(token: string, options: { maxAgeS: number; isSecure: boolean }): string {
  const { maxAgeS, isSecure } = options
  return `${SESSION_COOKIE}=${token}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${maxAgeS}${isSecure ? '; Secure' : ''}`
}
