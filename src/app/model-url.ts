/**
 * Where a deployment may stand. An operator's servers are in the operator's own network, so private addresses and
 * plain `http:` are right here, as they are not for a customer's URL. What no model server has is a link-local address:
 * those reach the machine's own neighbours and, in clouds, the metadata that hands out the machine's credentials. Only
 * operators name such URLs, so they are looked at when they are named and not again at each connection.
 */
import dns from 'node:dns'
import ipaddr from 'ipaddr.js'
import { checkOutboundUrl, refusedAddress, type Resolve } from '../base/outbound.ts'
import { failField, type Failure } from '../base/result.ts'

const refusedRanges = new Set(['linkLocal', 'multicast', 'broadcast', 'unspecified'])

/** Metadata and host services of clouds that do not use a link-local address. */
const metadataAddresses = new Set(['100.100.100.200', '168.63.129.16', 'fd00:ec2::254', 'fd20:ce::254'])

/** As the schema has it. */
const MAX_CHARS = 2_048
const LOOK_UP_MS = 2_000

/** Asks DNS, so it comes before the transaction and not inside it. */
export async function checkUpstreamUrl(url: string, resolve: Resolve = lookUp): Promise<Failure | undefined> {
  const refused = (message: string): Failure => failField(['url'], message, 'url_refused')
  const flaw = await checkOutboundUrl(url, true)
  if (flaw !== undefined) return refused(flaw)
  const { href, hostname, search, hash } = new URL(url)
  // Written out, characters beyond ASCII take more room.
  if (href.length > MAX_CHARS) return refused(`The URL is longer than ${MAX_CHARS} characters`)
  if (search !== '' || hash !== '') return refused('The URL must not have a query or a fragment')
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  const addresses = ipaddr.isValid(host) ? [host] : await addressesOf(host, resolve)
  if (addresses.some(isRefused)) return refused('The host is link-local or a metadata service, not a model server')
  return undefined
}

function isRefused(address: string): boolean {
  if (refusedRanges.has(refusedAddress(address) ?? '')) return true
  return ipaddr.isValid(address) && metadataAddresses.has(ipaddr.process(address).toString())
}

/** A name that nobody knows yet refuses nothing: the server may be set up after its entry here. */
async function addressesOf(host: string, resolve: Resolve): Promise<string[]> {
  let late: NodeJS.Timeout | undefined
  const none = new Promise<[]>((settle) => (late = setTimeout(() => settle([]), LOOK_UP_MS)))
  try {
    const found = await Promise.race([resolve(host).catch(() => []), none])
    return found.map(({ address }) => address)
  } finally {
    clearTimeout(late)
  }
}

/** The machine's own tables count, since private names stand there. */
function lookUp(host: string): Promise<dns.LookupAddress[]> {
  return dns.promises.lookup(host, { all: true })
}
