/**
 * The guard for every call to a URL chosen by a customer. Berth runs inside a network that customers must not reach, so
 * such a call may only go to public addresses. The check that counts runs at connect time, on the address being
 * connected to, so DNS rebinding (a public address for the check, a private one for the call) does not work. `https:`
 * is required, and redirects are never followed. An operator whose customers are on the internal network sets
 * `allowPrivate`, which allows private addresses and plain `http:`.
 */
import dns from 'node:dns'
import net, { type LookupFunction } from 'node:net'
import { callbackify } from 'node:util'
import ipaddr from 'ipaddr.js'
import { Agent, buildConnector } from 'undici'

/** All addresses of a name. Throws an error with a `code` when there are none. */
export type Resolve = (host: string) => Promise<dns.LookupAddress[]>

const NO_PUBLIC_ADDRESS = 'The host has no public address'

export class OutboundRefused extends Error {
  constructor() {
    // Without the address: customers read this and must not learn what internal names resolve to.
    super(NO_PUBLIC_ADDRESS)
  }
}

/** The non-public range an address is in. undefined: it is public. */
export function refusedAddress(ip: string): string | undefined {
  if (!ipaddr.isValid(ip)) return 'not an address'
  const address = ipaddr.parse(ip)
  const range: string = address.range()
  if (address instanceof ipaddr.IPv4) return range === 'unicast' ? undefined : range
  const embedded = embeddedIpv4(address, range)
  if (embedded !== undefined) return refusedAddress(embedded.toString())
  if (range !== 'unicast') return range
  // Only 2000::/3 is allocated; the rest is reserved and contains old forms such as ::127.0.0.1.
  return ((address.parts[0] ?? 0) & 0xe000) === 0x2000 ? undefined : 'reserved'
}

/** Mapped and NAT64 addresses reach the IPv4 address inside them, so that one is checked. 6to4 is always rejected. */
function embeddedIpv4(address: ipaddr.IPv6, range: string): ipaddr.IPv4 | undefined {
  const wellKnownNat64 = range === 'rfc6052' && address.parts.slice(2, 6).every((part) => part === 0)
  if (range !== 'ipv4Mapped' && !wellKnownNat64) return undefined
  return new ipaddr.IPv4(address.toByteArray().slice(12))
}

/** A `lookup` for sockets that checks every resolved address. One private address rejects the name. */
export function guardedLookup(allowPrivate: boolean, resolve: Resolve = resolverOf(allowPrivate)): LookupFunction {
  const lookUp = callbackify((host: string) => guardedAddresses(host, allowPrivate, resolve))
  return (host, options, callback) => {
    lookUp(host, (error, addresses) => {
      if (error !== null) return callback(error, [])
      const fitting = addresses.filter(({ family }) => !isFamily(options.family) || family === options.family)
      const [first] = fitting
      if (first === undefined) callback(notFound(), [])
      else if (options.all === true) callback(null, fitting)
      else callback(null, first.address, first.family)
    })
  }
}

/** An agent that guards connections by name and by address. It follows no redirects. */
export function outboundAgent(options: { allowPrivate: boolean; timeoutMs: number; resolve?: Resolve }): Agent {
  const connect = buildConnector({
    timeout: options.timeoutMs,
    lookup: guardedLookup(options.allowPrivate, options.resolve),
  })
  return new Agent({
    headersTimeout: options.timeoutMs,
    bodyTimeout: options.timeoutMs,
    connect: (to, callback) => {
      // A socket does not call `lookup` for a literal address.
      if (isRefusedLiteral(to.hostname, options.allowPrivate)) callback(new OutboundRefused(), null)
      else connect(to, callback)
    },
  })
}

/** Early check of a URL: the reason it cannot be called. undefined: no fault found yet. */
export async function checkOutboundUrl(
  url: string,
  allowPrivate: boolean,
  resolve: Resolve = resolverOf(allowPrivate),
): Promise<string | undefined> {
  if (!URL.canParse(url)) return 'The URL is not valid'
  // WHATWG parsing turns 2130706433, 0x7f.1 and 0177.0.0.1 into 127.0.0.1 before we look.
  const { protocol, username, password, hostname } = new URL(url)
  if (protocol !== 'https:' && !(allowPrivate && protocol === 'http:')) return 'The URL must start with https://'
  if (username !== '' || password !== '') return 'The URL must not contain a user name or password'
  if (isRefusedLiteral(hostname, allowPrivate)) return NO_PUBLIC_ADDRESS
  if (allowPrivate || net.isIP(bare(hostname)) !== 0) return undefined
  try {
    await guardedAddresses(hostname, allowPrivate, resolve)
    return undefined
  } catch (error) {
    // A missing name and a private one get the same answer, so that nobody can enumerate internal names. A temporary DNS
    // failure passes: the guard at connect time decides.
    return error instanceof OutboundRefused || isNoSuchName(error) ? NO_PUBLIC_ADDRESS : undefined
  }
}

async function guardedAddresses(host: string, allowPrivate: boolean, resolve: Resolve): Promise<dns.LookupAddress[]> {
  const addresses = await resolve(host)
  if (!allowPrivate && addresses.some(({ address }) => refusedAddress(address) !== undefined))
    throw new OutboundRefused()
  return addresses
}

function isRefusedLiteral(hostname: string, allowPrivate: boolean): boolean {
  const host = bare(hostname)
  return !allowPrivate && net.isIP(host) !== 0 && refusedAddress(host) !== undefined
}

function bare(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, '$1')
}

const DNS_TIMEOUT_MS = 2_000
const MAX_DNS_TRIES = 2

/**
 * Public names are resolved by DNS directly: the system resolver blocks one of the process's few worker threads while a
 * name server hangs, and a customer's name server can hang on purpose. Private names may be in the machine's hosts file,
 * which only the system resolver reads.
 */
function resolverOf(allowPrivate: boolean): Resolve {
  return allowPrivate ? (host) => dns.promises.lookup(host, { all: true }) : resolvePublicly
}

async function resolvePublicly(host: string): Promise<dns.LookupAddress[]> {
  const resolver = new dns.promises.Resolver({ timeout: DNS_TIMEOUT_MS, tries: MAX_DNS_TRIES })
  const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
  const addresses = [
    ...(four.status === 'fulfilled' ? four.value.map((address) => ({ address, family: 4 })) : []),
    ...(six.status === 'fulfilled' ? six.value.map((address) => ({ address, family: 6 })) : []),
  ]
  if (addresses.length > 0) return addresses
  throw [four, six].flatMap((one) => (one.status === 'rejected' ? [one.reason as Error] : []))[0] ?? notFound()
}

function isFamily(family: unknown): boolean {
  return family === 4 || family === 6
}

function isNoSuchName(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return code === dns.NOTFOUND || code === dns.NODATA
}

function notFound(): Error {
  return Object.assign(new Error('the host has no address'), { code: dns.NOTFOUND })
}
