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
  | ({ readonly kind: 'session' } & SessionToken)
  /** Proven before: something that we have signed names the key. */
  | { readonly kind: 'proven'; readonly keyId: string }
  /** A session cookie on a request that the console did not send. */
  | { readonly kind: 'cross-site' }

/** `isHostCookie`: from the cookie that no other host can set. */
export interface SessionToken {
  readonly token: string
  readonly isHostCookie: boolean
}

/** The parts of a request that hold or restrict credentials. */
export interface Sent {
  readonly headers: IncomingHttpHeaders
  readonly method: string
  /** The host and port that the client used. */
  readonly host: string
}

export const SESSION_COOKIE = 'berth_session'
/** Browsers accept the prefix only over HTTPS, from the host itself, and for the whole host. */
export const SECURE_SESSION_COOKIE = `__Host-${SESSION_COOKIE}`
/** Ties a sign-in that ends elsewhere, or with a code, to the browser that began it. */
export const FLOW_COOKIE = 'berth_flow'
export const SECURE_FLOW_COOKIE = `__Host-${FLOW_COOKIE}`
const consoleHeader = CONSOLE_HEADER.toLowerCase()

export function credentialsOf(sent: Sent): Credentials {
  const { authorization, 'x-api-key': apiKey } = sent.headers
  if (authorization !== undefined) return { kind: 'authorization', header: authorization }
  if (typeof apiKey === 'string') return { kind: 'key', text: apiKey }
  const session = sessionTokenOf(sent.headers)
  if (session === undefined) return { kind: 'none' }
  return isCrossSite(sent) ? { kind: 'cross-site' } : { kind: 'session', ...session }
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

/** An application on another name of the same domain can set the plain cookie, so the other one comes first. */
export function sessionTokenOf(headers: IncomingHttpHeaders): SessionToken | undefined {
  const secure = cookieOf(headers, SECURE_SESSION_COOKIE)
  if (secure !== undefined) return { token: secure, isHostCookie: true }
  const plain = cookieOf(headers, SESSION_COOKIE)
  return plain === undefined ? undefined : { token: plain, isHostCookie: false }
}

export function flowTokenOf(headers: IncomingHttpHeaders, isSecure: boolean): string | undefined {
  return cookieOf(headers, isSecure ? SECURE_FLOW_COOKIE : FLOW_COOKIE)
}

function cookieOf(headers: IncomingHttpHeaders, name: string): string | undefined {
  for (const one of headers.cookie?.split(';') ?? []) {
    const [key, value = ''] = one.trim().split('=', 2)
    if (key === name && value !== '') return value
  }
  return undefined
}

interface CookieOptions {
  readonly maxAgeS: number
  readonly isSecure: boolean
}

/** The `Set-Cookie` value. An empty token deletes the cookie. */
export function sessionCookie(token: string, options: CookieOptions): string {
  return setCookie(options.isSecure ? SECURE_SESSION_COOKIE : SESSION_COOKIE, token, 'Strict', options)
}

/** Lax, because a provider sends the browser back with a request from another site. */
export function flowCookie(token: string, options: CookieOptions): string {
  return setCookie(options.isSecure ? SECURE_FLOW_COOKIE : FLOW_COOKIE, token, 'Lax', options)
}

function setCookie(
  name: string,
  value: string,
  sameSite: 'Strict' | 'Lax',
  { maxAgeS, isSecure }: CookieOptions,
): string {
  return `${name}=${value}; HttpOnly; SameSite=${sameSite}; Path=/; Max-Age=${maxAgeS}${isSecure ? '; Secure' : ''}`
}
