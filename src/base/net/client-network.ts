/** The network of a client, for limits of clients that nobody knows yet. */
import ipaddr from 'ipaddr.js'

/** An IPv4 address, or the first half of an IPv6 address: providers give each client at least 2^64 of those. */
export function clientNetworkOf(address: string): string {
  if (!address.includes(':') || !ipaddr.isValid(address)) return address
  const parsed = ipaddr.process(address)
  return parsed instanceof ipaddr.IPv6 ? parsed.parts.slice(0, 4).join(':') : parsed.toString()
}
