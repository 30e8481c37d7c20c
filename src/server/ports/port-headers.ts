/**
 * Filters headers on their way through the proxy of HTTP ports. Headers are passed on as they were sent, in their order
 * and case, with `Host` and `Origin` unchanged: applications such as Jupyter compare the two. Headers of one connection
 * (RFC 9110, 7.6.1), claims about the client that only a proxy may make, and everything of ours are removed: cookies
 * and credentials of Berth never reach a workload.
 */
import { PORT_TOKEN_PREFIX } from '../../base/port-token.ts'
import { API_KEY_PREFIX } from '../../base/api-key.ts'
import { FLOW_COOKIE, SECURE_FLOW_COOKIE, SECURE_SESSION_COOKIE, SESSION_COOKIE } from '../http/credentials.ts'

export const PORT_COOKIE = 'berth_port'
/** Browsers accept this prefix only from the host itself and over TLS, so no other host can set it. */
export const SECURE_PORT_COOKIE = `__Host-${PORT_COOKIE}`

const ownCookies = new Set<string>([
  PORT_COOKIE,
  SECURE_PORT_COOKIE,
  SESSION_COOKIE,
  SECURE_SESSION_COOKIE,
  FLOW_COOKIE,
  SECURE_FLOW_COOKIE,
])
const ownBearer = new RegExp(`^Bearer +(${API_KEY_PREFIX}|${PORT_TOKEN_PREFIX})`, 'i')

const hopByHop = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]
const notForWorkload = new Set([
  ...hopByHop,
  'content-length',
  'expect',
  'host',
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-port',
  'x-forwarded-proto',
  'x-real-ip',
])
/** Applications share a domain, so one must not clear the cookies of all. */
const notForClient = new Set([...hopByHop, 'clear-site-data'])
/**
 * Commands to a proxy in front of us (nginx, Apache, lighttpd, Perlbal, LiteSpeed), such as to send one of its files or
 * to forward the request elsewhere. An application may command its own proxy, but not the operator's.
 */
const proxyCommands = /^x-(accel-|sendfile|lighttpd-|reproxy-|litespeed-)/

/** Alternating names and values, as in `rawHeaders`. */
type RawHeaders = readonly string[]

export interface Client {
  readonly host: string
  readonly address: string
  readonly protocol: 'http' | 'https'
}

export interface RequestHead {
  readonly method: string
  readonly rawHeaders: RawHeaders
  readonly isUpgrade: boolean
}

/** Returns the headers for the workload. */
export function headersForWorkload({ method, rawHeaders, isUpgrade }: RequestHead, client: Client): string[] {
  const removed = new Set([...notForWorkload, ...namedByConnection(rawHeaders)])
  const headers = ['Host', client.host]
  let length: string | undefined
  let isChunked = false
  for (const [name, value] of pairsOf(rawHeaders)) {
    const key = name.toLowerCase()
    if (key === 'content-length') length = value
    if (key === 'transfer-encoding') isChunked = true
    if (removed.has(key) || isOwnCredential(key, value)) continue
    const visible = key === 'cookie' ? withoutOwnCookies(value) : value
    if (visible !== '' || value === '') headers.push(name, visible)
  }
  headers.push('X-Forwarded-For', client.address, 'X-Forwarded-Proto', client.protocol, 'X-Forwarded-Host', client.host)
  if (isUpgrade) return [...headers, 'Connection', 'Upgrade', 'Upgrade', 'websocket']
  headers.push('Connection', 'close')
  // The length decides where a request ends, so it never depends on the client's `Connection` header.
  if (isChunked) headers.push('Transfer-Encoding', 'chunked')
  else if (length !== undefined) headers.push('Content-Length', length)
  else if (method !== 'GET' && method !== 'HEAD') headers.push('Content-Length', '0')
  return headers
}

/** Returns the headers for the client. A workload cannot change our cookies. */
export function headersForClient(rawHeaders: RawHeaders, protocol: Client['protocol']): string[] {
  const removed = new Set([...notForClient, ...namedByConnection(rawHeaders)])
  const headers: string[] = []
  for (const [name, value] of pairsOf(rawHeaders)) {
    const key = name.toLowerCase()
    if (removed.has(key) || proxyCommands.test(key) || (key === 'set-cookie' && ownCookies.has(cookieName(value))))
      continue
    // Over plain HTTP the Referer proves where a request comes from. This policy tells other origins equally little.
    const isHidden = key === 'referrer-policy' && protocol === 'http' && value.includes('no-referrer')
    headers.push(name, isHidden ? 'same-origin' : value)
  }
  return headers
}

function isOwnCredential(key: string, value: string): boolean {
  return (key === 'authorization' && ownBearer.test(value)) || (key === 'x-api-key' && value.startsWith(API_KEY_PREFIX))
}

/** Whether the `Authorization` header holds a credential of ours, valid or not. */
export function isOwnAuthorization(authorization: string): boolean {
  return ownBearer.test(authorization)
}

export function cookieOf(cookies: string | undefined, name: string): string | undefined {
  for (const one of cookies?.split(';') ?? []) {
    if (cookieName(one) === name) return one.slice(one.indexOf('=') + 1).trim()
  }
  return undefined
}

function withoutOwnCookies(cookies: string): string {
  return cookies
    .split(';')
    .filter((one) => !ownCookies.has(cookieName(one)))
    .join(';')
    .trim()
}

/** Reads the name in `name=value; attributes`. */
function cookieName(cookie: string): string {
  return cookie.split('=', 1)[0]?.trim() ?? ''
}

function namedByConnection(rawHeaders: RawHeaders): string[] {
  return pairsOf(rawHeaders)
    .filter(([name]) => name.toLowerCase() === 'connection')
    .flatMap(([, value]) => value.split(',').map((one) => one.trim().toLowerCase()))
}

function pairsOf(rawHeaders: RawHeaders): Array<[string, string]> {
  return Array.from({ length: rawHeaders.length / 2 }, (_, at) => [
    rawHeaders[2 * at] ?? '',
    rawHeaders[2 * at + 1] ?? '',
  ])
}
