/**
 * The operator's inventory of bare-metal hosts, one JSON file. Each entry describes the hardware and the access; secrets
 * and the public offer are separated here. All errors are reported at once, with host and field but without the value,
 * which may be secret.
 */
import { z } from 'zod'
import { hostName, hostOffer, type HostOffer } from '../../contract/agent.ts'
import { issueText } from '../../contract/issue-text.ts'
import {
  metalAccess,
  metalAccessFields,
  metalAddress,
  metalDeclared,
  type MetalAccess,
  type MetalAddress,
  type MetalDeclared,
} from '../../runtimes/ssh/access.ts'

export interface InventoryHost {
  readonly id: string
  readonly offer: HostOffer
  readonly address: MetalAddress
  readonly access: MetalAccess
  readonly declared: MetalDeclared
}

export type InventoryOutcome =
  | { readonly kind: 'read'; readonly hosts: readonly InventoryHost[] }
  | { readonly kind: 'faulty'; readonly faults: readonly string[] }

const MAX_HOSTS = 10_000
const MAX_FAULTS = 50

const inventoryHost = z
  .strictObject({
    id: hostName,
    ...hostOffer.omit({ offering: true, gpusSick: true, priceUsdPerGpuHour: true }).shape,
    gpuType: hostOffer.shape.gpuType.default(null),
    gpuFormFactor: hostOffer.shape.gpuFormFactor.default(null),
    ethernetVariant: hostOffer.shape.ethernetVariant.default(null),
    hasPersistentStorage: z.boolean().default(true),
    simulated: z.boolean().default(false),
    ...metalAddress.shape,
    /** Our SSH connection uses it, if it differs from the public address. */
    address: metalAccessFields.shape.address.optional(),
    port: metalAccessFields.shape.port.unwrap().optional(),
    ...metalAccessFields.omit({ address: true, port: true }).shape,
    tolerance: metalDeclared.shape.tolerance,
  })
  .refine(({ user, tenantUser }) => user !== tenantUser, {
    path: ['tenantUser'],
    message: 'must differ from the user that Berth logs in as',
  })
type Entry = z.output<typeof inventoryHost>

const inventoryFile = z.strictObject({ hosts: z.array(z.unknown()).max(MAX_HOSTS) })

export function parseInventory(text: string): InventoryOutcome {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (error) {
    return { kind: 'faulty', faults: [`not JSON: ${error instanceof Error ? error.message : String(error)}`] }
  }
  const file = inventoryFile.safeParse(json, { error: issueText })
  if (!file.success)
    return { kind: 'faulty', faults: file.error.issues.map((one) => `${fieldOf(one)}: ${one.message}`) }
  const faults: string[] = []
  const hosts: InventoryHost[] = []
  for (const [index, one] of file.data.hosts.entries()) {
    const entry = inventoryHost.safeParse(one, { error: issueText })
    if (entry.success) hosts.push(hostOf(entry.data))
    else faults.push(...entry.error.issues.map((issue) => `${nameOf(one, index)}: ${fieldOf(issue)}: ${issue.message}`))
  }
  faults.push(...doubles(hosts))
  return faults.length > 0 ? { kind: 'faulty', faults: faults.slice(0, MAX_FAULTS) } : { kind: 'read', hosts }
}

function hostOf(entry: Entry): InventoryHost {
  const { id, hostname, publicIp, privateIp, sshPort, tolerance } = entry
  const address: MetalAddress = { hostname, publicIp, privateIp, sshPort }
  const offer: HostOffer = hostOffer.parse({ ...entry, offering: 'bare-metal', gpusSick: [], priceUsdPerGpuHour: null })
  const access = metalAccess.parse({ ...entry, address: entry.address ?? publicIp, port: entry.port ?? sshPort })
  const declared: MetalDeclared = {
    cpuCores: entry.hardware.virtualCores,
    ramGb: entry.hardware.ramGb,
    ...(entry.simulated ? {} : { gpus: { count: entry.gpusTotal, model: entry.gpuModel } }),
    tolerance,
  }
  return { id, offer, address, access, declared }
}

function doubles(hosts: readonly InventoryHost[]): string[] {
  const faults: string[] = []
  const ids = new Set<string>()
  const places = new Map<string, string>()
  for (const { id, access } of hosts) {
    if (ids.has(id)) faults.push(`host ${id}: id: duplicate id`)
    ids.add(id)
    const place = `${access.address}:${access.port}`
    const other = places.get(place)
    if (other !== undefined) faults.push(`host ${id}: address: host ${other} already uses ${place}`)
    places.set(place, id)
  }
  return faults
}

function nameOf(entry: unknown, index: number): string {
  const id = typeof entry === 'object' && entry !== null && 'id' in entry ? entry.id : undefined
  return typeof id === 'string' ? `host ${id.slice(0, 100)}` : `host number ${index + 1}`
}

function fieldOf(issue: { readonly path: readonly PropertyKey[] }): string {
  return issue.path.length === 0 ? 'the whole' : issue.path.map(String).join('.')
}
