/**
 * Which registries a customer may make the host call. The daemon is inside the supplier's network and reports why a
 * pull failed, so a name such as `10.0.0.5:22/x` would reveal open ports there. By default only public addresses are
 * allowed. A registry that the supplier lists may have any address except loopback: the daemon uses plain HTTP there,
 * and its own API may be among them. The general permission for private registries excludes the host itself and
 * link-local addresses, and its pulls hide why they failed (`quiet`).
 */
import dns from 'node:dns'
import net from 'node:net'
import os from 'node:os'
import { checkOutboundUrl, refusedAddress, type Resolve } from '../../base/net/outbound.ts'
import { NeverStarts } from '../runtime.ts'
import type { ImageName } from '../image-name.ts'

export interface RegistryRules {
  /** Allows registries with private addresses, but not the host itself. */
  readonly allowPrivateRegistries: boolean
  /** Listed by the supplier: `host:port`, or `host` for all of its ports. */
  readonly allowedRegistries: readonly string[]
  /** Credentials by host as written in image names. A host with credentials is allowed. */
  readonly registries: Readonly<Record<string, unknown>>
  readonly resolve?: Resolve
}

/** Address ranges of the general permission. */
const PRIVATE_RANGES = new Set(['private', 'uniqueLocal', 'carrierGradeNat'])
/** Ranges that reach the host itself. */
const LOOPBACK_RANGES = new Set(['loopback', 'unspecified'])

/** Throws `NeverStarts` for a registry that is not allowed. */
export async function checkRegistry(image: ImageName, rules: RegistryRules): Promise<{ quiet: boolean }> {
  const { host } = image
  if (host === undefined) return { quiet: false }
  const name = nameOf(host)
  if (name === undefined || name === 'localhost' || name.endsWith('.localhost')) throw refused(host)
  const isNamed = isNamedRegistry(host, rules)
  if (!isNamed && !rules.allowPrivateRegistries) {
    const url = `https://${host}/`
    const why = await (rules.resolve === undefined
      ? checkOutboundUrl(url, false)
      : checkOutboundUrl(url, false, rules.resolve))
    if (why === undefined) return { quiet: false }
    throw refused(host)
  }
  const ranges = await rangesOf(name, rules.resolve)
  const isRefused = (range: string): boolean =>
    LOOPBACK_RANGES.has(range) || (!isNamed && range !== 'public' && !PRIVATE_RANGES.has(range))
  if (ranges.length === 0 || ranges.some(isRefused)) throw refused(host)
  return { quiet: !isNamed && ranges.some((range) => range !== 'public') }
}

function isNamedRegistry(host: string, { allowedRegistries, registries }: RegistryRules): boolean {
  return Object.hasOwn(registries, host) || allowedRegistries.some((one) => one === host || one === hostname(host))
}

/** The ranges of all addresses of a registry; `own` for addresses of this host. Empty: it has none. */
async function rangesOf(name: string, resolve: Resolve = lookUp): Promise<string[]> {
  const addresses = net.isIP(name) === 0 ? await resolve(name).catch(() => []) : [{ address: name }]
  const ownAddresses = new Set(
    Object.values(os.networkInterfaces()).flatMap((all) => (all ?? []).map((one) => one.address)),
  )
  return addresses.map(({ address }) => {
    const range = refusedAddress(address) ?? 'public'
    return ownAddresses.has(address) && !LOOPBACK_RANGES.has(range) ? 'own' : range
  })
}

/** Like the daemon: private names may be in the hosts file. */
function lookUp(name: string): Promise<dns.LookupAddress[]> {
  return dns.promises.lookup(name, { all: true })
}

/** Without its port, normalized: 2130706433 and 0x7f.1 are 127.0.0.1. undefined: not a host name. */
function nameOf(host: string): string | undefined {
  const url = `https://${host}/`
  return URL.canParse(url) ? new URL(url).hostname.replace(/^\[(.*)\]$/, '$1') : undefined
}

/** The same text for every cause: which names exist and where they lead is private to the supplier. */
function refused(host: string): NeverStarts {
  return new NeverStarts(
    'registry_refused',
    `This host does not pull images from ${host}: it is not a public registry.`,
  )
}

function hostname(host: string): string {
  return host.replace(/:[0-9]+$/, '')
}
