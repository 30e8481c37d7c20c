/** Parts of nftables rules that keep tenants off the private network of their host. */
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'

const RESOLVER_FILE = '/etc/resolv.conf'
const MAX_RESOLVERS = 8

/** Not the internet: private, shared, link-local, loopback, benchmarks, multicast, reserved. */
export const PRIVATE_IPV4 = `0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, 192.0.0.0/24,
  192.168.0.0/16, 198.18.0.0/15, 224.0.0.0/3`
/** The same, plus the IPv4 ranges behind a NAT64 gateway. */
export const PRIVATE_IPV6 = `::/127, ::ffff:0:0/96, 64:ff9b:1::/48, fc00::/7, fe80::/10, fec0::/10, ff00::/8,
  64:ff9b::/104, 64:ff9b::a00:0/104, 64:ff9b::6440:0/106, 64:ff9b::7f00:0/104, 64:ff9b::a9fe:0/112,
  64:ff9b::ac10:0/108, 64:ff9b::c0a8:0/112, 64:ff9b::c612:0/111`

/** The addresses at which the host itself resolves names. */
export async function resolversOfHost(): Promise<string[]> {
  const text = await readFile(RESOLVER_FILE, 'utf8').catch(() => '')
  return [...text.matchAll(/^\s*nameserver\s+(\S+)/gm)]
    .map(([, address = '']) => address)
    .filter((address) => isIP(address) !== 0)
    .slice(0, MAX_RESOLVERS)
}

export function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1'
}

/** Rules that let DNS queries to these addresses pass. */
export function acceptDns(resolvers: readonly string[]): string {
  const rules = resolvers.flatMap((address) => {
    const to = `${isIP(address) === 6 ? 'ip6' : 'ip'} daddr ${address}`
    return [`${to} udp dport 53 accept`, `${to} tcp dport 53 accept`]
  })
  return rules.join('\n    ')
}
