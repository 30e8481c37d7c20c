/**
 * Which registries a customer may make the host call. The daemon is inside the supplier's network and says why a pull
 * failed, so a name such as `10.0.0.5:22/x` would tell a customer which ports are open there. Without permission only
 * public addresses are called. A registry that the supplier names may have any address but a loopback one: the daemon
 * speaks plain HTTP to those, and its own API may be among them. The general permission for private registries leaves
 * out the host itself and link-local addresses, and its pulls do not say why they failed (`quiet`).
 */
import dns from 'node:dns'
import net from 'node:net'
import os from 'node:os'
import { checkOutboundUrl, refusedAddress, type Resolve } from '../../base/outbound.ts'
import { NeverStarts } from '../runtime.ts'
import type { ImageName } from './image-name.ts'

export interface RegistryRules {
  /** Registries with private addresses may be called, but not the host itself. */
  readonly allowPrivateRegistries: boolean
  /** Registries that the supplier has named: `host:port`, or `host` for all of its ports. */
  readonly allowedRegistries: readonly string[]
  /** Logins by host, as it stands in names of images. Having one is permission. */
  readonly registries: Readonly<Record<string, unknown>>
  readonly resolve?: Resolve
}

/** Which kinds of addresses the general permission is for. */
const PRIVATE_RANGES = new Set(['private', 'uniqueLocal', 'carrierGradeNat'])
/** What reaches the host itself, whatever it listens on. */
const LOOPBACK_RANGES = new Set(['loopback', 'unspecified'])

/** Throws `NeverStarts` for a registry that may not be called. */
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

/** The kinds of all addresses of a registry. Own addresses count as `own`. Empty: it has none. */
async function rangesOf(name: string, resolve: Resolve = lookUp): Promise<string[]> {
  const found = net.isIP(name) === 0 ? await resolve(name).catch(() => []) : [{ address: name }]
  const own = new Set(Object.values(os.networkInterfaces()).flatMap((all) => (all ?? []).map((one) => one.address)))
  return found.map(({ address }) => {
    const range = refusedAddress(address) ?? 'public'
    return own.has(address) && !LOOPBACK_RANGES.has(range) ? 'own' : range
  })
}

/** As the daemon does: private names may stand in the tables of the machine. */
function lookUp(name: string): Promise<dns.LookupAddress[]> {
  return dns.promises.lookup(name, { all: true })
}

/** Without its port, and as a resolver would read it: 2130706433 and 0x7f.1 are 127.0.0.1. undefined: it is none. */
function nameOf(host: string): string | undefined {
  const url = `https://${host}/`
  return URL.canParse(url) ? new URL(url).hostname.replace(/^\[(.*)\]$/, '$1') : undefined
}

/** The same for all of them: which names there are, and where they lead, is the supplier's own business. */
function refused(host: string): NeverStarts {
  return new NeverStarts('registry_refused', `This host does not pull images from ${host}: it is no public registry.`)
}

function hostname(host: string): string {
  return host.replace(/:[0-9]+$/, '')
}
