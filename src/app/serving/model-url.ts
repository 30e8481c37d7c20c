/**
 * Allowed URLs of deployments. Deployments run in the operator's own network, so private addresses and plain `http:` are
 * fine, unlike in a customer's URL. Link-local addresses are refused: they reach neighbours of the server and, in clouds,
 * the metadata service that hands out its credentials. Only operators set these URLs, so they are checked when they are
 * set and not at each connection.
 */
import dns from 'node:dns'
import ipaddr from 'ipaddr.js'
import { checkOutboundUrl, refusedAddress, type Resolve } from '../../base/net/outbound.ts'
import { failField, type Failure } from '../../contract/result.ts'

const refusedRanges = new Set(['linkLocal', 'multicast', 'broadcast', 'unspecified'])

/** Metadata and host services of clouds that are not link-local. */
const metadataAddresses = new Set(['100.100.100.200', '168.63.129.16', 'fd00:ec2::254', 'fd20:ce::254'])

/** The limit of the column. */
const MAX_CHARS = 2_048
const LOOKUP_TIMEOUT_MS = 2_000

/** Queries DNS, so it runs before the transaction. */
export async function checkUpstreamUrl(url: string, resolve: Resolve = lookUp): Promise<Failure | undefined> {
  const refused = (fault: string): Failure => failField(['url'], 'url_refused', { message: `${fault}.` })
  const flaw = await checkOutboundUrl(url, true)
  if (flaw !== undefined) return refused(flaw)
  const { href, hostname, search, hash } = new URL(url)
  // Characters beyond ASCII are longer when encoded.
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

/** An unknown host name is allowed: the server may be set up later. */
async function addressesOf(host: string, resolve: Resolve): Promise<string[]> {
  let timer: NodeJS.Timeout | undefined
  const none = new Promise<[]>((settle) => (timer = setTimeout(() => settle([]), LOOKUP_TIMEOUT_MS)))
  try {
    const addresses = await Promise.race([resolve(host).catch(() => []), none])
    return addresses.map(({ address }) => address)
  } finally {
    clearTimeout(timer)
  }
}

/** Includes /etc/hosts, which may contain private names. */
function lookUp(host: string): Promise<dns.LookupAddress[]> {
  return dns.promises.lookup(host, { all: true })
}
