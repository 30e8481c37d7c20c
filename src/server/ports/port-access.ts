/**
 * Decides who may use an HTTP port: anyone if it is public; if it is private, members of the account, with an API key
 * or with the cookie that a browser gets for a one-time code, and holders of a token for that port. Access to an
 * application often means a shell on its machine, so it needs the same scope as a terminal.
 *
 * The cookie is signed for one port and names an API key, which is checked at every request. Applications of several
 * tenants share one domain, so `SameSite` does not keep one application from using the cookie of another: a cookie
 * counts only on requests from its own origin, and when a user follows a link. Over TLS and on localhost, browsers tell
 * the two apart with `Sec-Fetch-Site`. Over plain HTTP they send no such header, and a page can hide where its requests
 * come from, so there the cookie counts only with the port's own `Origin` or `Referer`. A user who follows a link first
 * gets a page of ours, which continues from there and cannot be framed by another page.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Clock, Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { hashPortToken } from '../../base/port-token.ts'
import type { Vault } from '../../base/vault.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { holdsScope } from '../../domain/api-key.ts'
import type { PortRoute } from '../../store/rental/port.ts'
import type { Authenticator } from '../http/authenticate.ts'
import { isOwnOrigin, type Credentials } from '../http/credentials.ts'
import { cookieOf, isOwnAuthorization, PORT_COOKIE, SECURE_PORT_COOKIE } from './port-headers.ts'

const SCOPE = 'compute:write'

export type Visitor =
  | { readonly kind: 'anyone' }
  | { readonly kind: 'member'; readonly keyId: string }
  | { readonly kind: 'token'; readonly hash: Buffer }

export interface Visit {
  readonly method: string
  readonly headers: IncomingHttpHeaders
  readonly host: string
  readonly protocol: 'http' | 'https'
}

export interface PortAccess {
  /** Fails with `app_not_found` for everybody who may not learn that the port exists. */
  admit(visit: Visit, route: PortRoute): Promise<Result<Visitor>>
  /**
   * Tells whether the visitor has the cookie but may have been sent by a page of another origin, so that a page of ours
   * must repeat the request.
   */
  isUnproven(visit: Visit, route: PortRoute): boolean
  /** Checks connections that stay open. A failed lookup does not end them. */
  mayStay(visitor: Visitor, route: PortRoute): Promise<boolean>
  /** Returns the `Set-Cookie` value for a browser that presented a code of this key. */
  cookieFor(route: PortRoute, keyId: string, protocol: Visit['protocol']): string
}

export interface PortAccessOptions {
  readonly authenticator: Pick<Authenticator, 'authenticate'>
  readonly vault: Pick<Vault, 'deriveAll'>
  readonly clock: Clock
}

export function makePortAccess({ authenticator, vault, clock }: PortAccessOptions): PortAccess {
  const secrets = vault.deriveAll('port cookie')
  const [ownSecret = Buffer.alloc(0)] = secrets
  const sign = ({ rentalId, port }: PortRoute, content: string, secret = ownSecret): Buffer =>
    createHmac('sha256', secret).update(`${rentalId} ${port.port} ${content}`).digest()

  const readCookie = (visit: Visit, route: PortRoute): string | undefined => {
    const name = visit.protocol === 'https' ? SECURE_PORT_COOKIE : PORT_COOKIE
    const [keyId = '', until = '', mac = ''] = cookieOf(visit.headers.cookie, name)?.split('.') ?? []
    const givenMac = Buffer.from(mac, 'base64url')
    const isSigned = secrets.some((secret) => {
      const expected = sign(route, `${keyId}.${until}`, secret)
      return givenMac.length === expected.length && timingSafeEqual(givenMac, expected)
    })
    if (!isSigned) return undefined
    return Number(until) > clock.now() ? keyId : undefined
  }

  const admitKey = async (credentials: Credentials, route: PortRoute): Promise<Result<Visitor>> => {
    const caller = await authenticator.authenticate(credentials)
    if (!caller.ok) return caller.kind === 'unavailable' ? caller : fail('app_not_found')
    const { accountId, scopes, keyId } = caller.value
    if (accountId !== route.accountId || !holdsScope(scopes, SCOPE)) return fail('app_not_found')
    return ok({ kind: 'member', keyId })
  }

  const admit: PortAccess['admit'] = async (visit, route) => {
    if (route.port.access === 'public') return ok({ kind: 'anyone' })
    const { authorization } = visit.headers
    if (authorization !== undefined && isOwnAuthorization(authorization)) {
      const hash = hashPortToken(authorization.replace(/^Bearer +/i, '').trim())
      if (hash === undefined) return admitKey({ kind: 'authorization', header: authorization }, route)
      return isValidToken(route, hash, clock.now()) ? ok({ kind: 'token', hash }) : fail('app_not_found')
    }
    const keyId = readCookie(visit, route)
    if (keyId === undefined || isFromElsewhere(visit)) return fail('app_not_found')
    return admitKey({ kind: 'proven', keyId }, route)
  }

  return {
    admit,
    isUnproven: (visit, route) => {
      const { method, headers } = visit
      const isSilent = headers['sec-fetch-site'] === undefined && headers.origin === undefined
      const isPlain = headers.authorization === undefined || !isOwnAuthorization(headers.authorization)
      if (method !== 'GET' || !isSilent || !isPlain || route.port.access === 'public') return false
      return readCookie(visit, route) !== undefined && isFromElsewhere(visit)
    },
    mayStay: async (visitor, route) => {
      if (route.port.access === 'public') return true
      if (visitor.kind === 'anyone') return false
      if (visitor.kind === 'token') return isValidToken(route, visitor.hash, clock.now())
      const admission = await admitKey({ kind: 'proven', keyId: visitor.keyId }, route)
      return admission.ok || admission.kind === 'unavailable'
    },
    cookieFor: (route, keyId, protocol) => {
      const content = `${keyId}.${clock.now() + limits.portCookieMs}`
      const value = `${content}.${sign(route, content).toString('base64url')}`
      const attributes = `HttpOnly; SameSite=Lax; Path=/; Max-Age=${limits.portCookieMs / 1_000}`
      return protocol === 'https'
        ? `${SECURE_PORT_COOKIE}=${value}; ${attributes}; Secure`
        : `${PORT_COOKIE}=${value}; ${attributes}`
    },
  }
}

function isValidToken(route: PortRoute, hash: Buffer, now: Instant): boolean {
  const token = route.tokens.find((one) => timingSafeEqual(one.hash, hash))
  return token !== undefined && (token.expiresAt === null || token.expiresAt > now)
}

/** Tells whether a page of another origin may have sent the request. Pages cannot forge these headers. */
function isFromElsewhere({ method, headers, host }: Visit): boolean {
  const isLink =
    (method === 'GET' || method === 'HEAD') &&
    headers['sec-fetch-mode'] === 'navigate' &&
    headers['sec-fetch-dest'] === 'document'
  if (isLink) return false
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site !== 'same-origin' && site !== 'none'
  // These headers decide for WebSockets, plain HTTP, and browsers without `Sec-Fetch-Site`. A page can omit the
  // Referer, but not choose another.
  const origin = headers.origin ?? headers.referer
  return !isOwnOrigin({ headers: { origin }, host })
}
