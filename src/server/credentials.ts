/**
 * By what a request says who sends it: the Authorization header, or the cookie of somebody who has signed in to the
 * console. Browsers send cookies by themselves, also when a page of another site makes them ask. So the cookie counts
 * only on what the console's own pages send: browsers say where a request comes from (`Sec-Fetch-Site`, `Origin`), no
 * page can change that, and what changes something needs a header that no form can send.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { CONSOLE_HEADER, CONSOLE_HEADER_VALUE } from '../contract/session.ts'

export type Credentials =
  | { readonly kind: 'none' }
  | { readonly kind: 'authorization'; readonly header: string }
  /** A key by itself, as somebody types it to sign in. */
  | { readonly kind: 'key'; readonly text: string }
  | { readonly kind: 'session'; readonly token: string }
  /** There is a cookie, on a request that the console did not send. */
  | { readonly kind: 'cross-site' }

/** What is needed of a request to tell. */
export interface Sent {
  readonly headers: IncomingHttpHeaders
  readonly method: string
  /** The name and port by which the client calls this server. */
  readonly host: string
}

const COOKIE = 'berth_session'
const consoleHeader = CONSOLE_HEADER.toLowerCase()

export function credentialsOf(sent: Sent): Credentials {
  const { authorization } = sent.headers
  if (authorization !== undefined) return { kind: 'authorization', header: authorization }
  const token = sessionTokenOf(sent.headers)
  if (token === undefined) return { kind: 'none' }
  return isCrossSite(sent) ? { kind: 'cross-site' } : { kind: 'session', token }
}

/** Whether a request can be of another site's making. One without any of a browser's headers is a program's. */
export function isCrossSite(sent: Sent): boolean {
  const { headers, method } = sent
  const isRead = method === 'GET' || method === 'HEAD'
  const site = headers['sec-fetch-site']
  // `none`: typed into the address bar, or a bookmark.
  if (site !== undefined && site !== 'same-origin' && !(isRead && site === 'none')) return true
  if (headers.origin !== undefined && !isOwnOrigin(sent)) return true
  return !isRead && headers[consoleHeader] !== CONSOLE_HEADER_VALUE
}

/** Whether it says that it comes from a page of this server. */
export function isOwnOrigin({ headers: { origin }, host }: Pick<Sent, 'headers' | 'host'>): boolean {
  return origin !== undefined && URL.canParse(origin) && new URL(origin).host === host.toLowerCase()
}

export function sessionTokenOf(headers: IncomingHttpHeaders): string | undefined {
  for (const one of headers.cookie?.split(';') ?? []) {
    const [name, value = ''] = one.trim().split('=', 2)
    if (name === COOKIE && value !== '') return value
  }
  return undefined
}

/** For `Set-Cookie`. An empty token takes the cookie away. */
export function sessionCookie(token: string, options: { maxAgeS: number; isSecure: boolean }): string {
  const { maxAgeS, isSecure } = options
  return `${COOKIE}=${token}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${maxAgeS}${isSecure ? '; Secure' : ''}`
}
