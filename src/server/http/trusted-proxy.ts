/**
 * Decides which proxies in front of this server are trusted to report the client's address, host and protocol. Every
 * proxy appends the address it sees to X-Forwarded-For, so the header is read from the right, the connection itself
 * first: the first address that is not a trusted proxy is the client. The client may have written anything further
 * left. HTTP requests (fastify) and upgrades use the same function.
 */
import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'

/** Tells whether the proxy at this address is trusted. `hop` 0 is the direct peer. */
export type TrustedProxy = (address: string, hop: number) => boolean

const MAX_HOPS = 10
const MAX_ADDRESSES = 100

export const TRUST_PROXY_HELP =
  'must be the number of proxies in front of this server, such as 1, or their addresses, such as 10.0.0.5,10.1.0.0/16. ' +
  'true is not accepted: it would trust any address that a client makes up'

/** undefined: no proxy is trusted. 'invalid': neither a count nor addresses. */
export function readTrustedProxy(text: string): TrustedProxy | undefined | 'invalid' {
  if (/^(0|false|no|off)$/i.test(text)) return undefined
  if (/^\d{1,2}$/.test(text)) {
    const hops = Number.parseInt(text, 10)
    return hops <= MAX_HOPS ? (_address, hop) => hop < hops : 'invalid'
  }
  const list = new BlockList()
  const ranges = text.split(',').map((one) => one.trim())
  if (ranges.length > MAX_ADDRESSES || !ranges.every((range) => addRange(list, range))) return 'invalid'
  return (address) => list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

function addRange(list: BlockList, range: string): boolean {
  const [address = '', prefix, ...more] = range.split('/')
  const version = isIP(address)
  if (version === 0 || more.length > 0) return false
  const family = version === 6 ? 'ipv6' : 'ipv4'
  if (prefix === undefined) list.addAddress(address, family)
  else if (!/^\d{1,3}$/.test(prefix) || Number(prefix) > (version === 6 ? 128 : 32)) return false
  else list.addSubnet(address, Number(prefix), family)
  return true
}

export function addressOf(request: IncomingMessage, trusted: TrustedProxy | undefined): string {
  const forwarded = [request.headers['x-forwarded-for'] ?? []].flat().join(',')
  const hops = [...forwarded.split(',').map((one) => one.trim()), request.socket.remoteAddress ?? '']
    .filter((one) => one !== '')
    .toReversed()
  const client = hops.findIndex((address, hop) => trusted?.(address, hop) !== true)
  return hops[client === -1 ? hops.length - 1 : client] ?? ''
}

/** The host and port that the client used. */
export function hostOf(request: IncomingMessage, trusted: TrustedProxy | undefined): string {
  const forwarded = [request.headers['x-forwarded-host'] ?? []].flat().join(',')
  const last = forwarded.split(',').at(-1)?.trim() ?? ''
  const isFromTrustedProxy = last !== '' && trusted?.(request.socket.remoteAddress ?? '', 0) === true
  return isFromTrustedProxy ? last : (request.headers.host ?? '')
}

/** The protocol that the client used. */
export function protocolOf(request: IncomingMessage, trusted: TrustedProxy | undefined): 'http' | 'https' {
  const forwarded = [request.headers['x-forwarded-proto'] ?? []].flat().join(',')
  const last = forwarded.split(',').at(-1)?.trim().toLowerCase()
  const isBelieved = trusted?.(request.socket.remoteAddress ?? '', 0) === true
  return isBelieved && last === 'https' ? 'https' : 'http'
}
