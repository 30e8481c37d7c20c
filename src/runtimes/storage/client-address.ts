/** Validates client addresses, since the NFS daemon would also accept names, networks and globs. */
import ipaddr from 'ipaddr.js'

/** Clients per volume. */
const MAX_CLIENTS = 1_024

/** No machine has one of these; the daemon reads some of them as everybody. */
const unusableRanges: ReadonlySet<string> = new Set(['unspecified', 'broadcast', 'multicast'])

/** Returns the addresses normalized and sorted, without duplicates. */
export function readClients(addresses: readonly string[]): string[] {
  if (addresses.length > MAX_CLIENTS) throw new Error(`A volume can have at most ${MAX_CLIENTS} clients`)
  return [...new Set(addresses.map(readAddress))].toSorted()
}

export function readAddress(text: string): string {
  const isAddress = ipaddr.IPv4.isValidFourPartDecimal(text) || (ipaddr.IPv6.isValid(text) && !text.includes('%'))
  if (!isAddress) throw new Error(`“${text.slice(0, 100)}” is not an IP address`)
  const address = ipaddr.process(text)
  if (unusableRanges.has(address.range())) throw new Error(`${text} is not a usable address`)
  return address.toString()
}
