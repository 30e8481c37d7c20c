/** Converts configurations and servers of Denvr into offers and machines of the port. */
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../../../base/money.ts'
import type { ProviderData } from '../../../contract/provider-data.ts'
import type { CloudMachine, CloudOffer } from '../cloud.ts'
import { gpuOf } from '../offer.ts'
import type { Availability, Configuration, Server } from './api.ts'

export const LOGIN_USER = 'ubuntu'
/** The size of the root disk, which is bought with the machine and billed separately. */
export const ROOT_DISK_GB = 500
const HOURS_PER_MONTH = 730n
/** The pool that all customers share. All others belong to a contract. */
const PUBLIC_POOL = 'on-demand'

/** A type is a configuration in a pool: `H100_80GB_SXM_8x@on-demand`. */
export function typeOf(configuration: string, pool: string): string {
  return `${configuration}@${pool}`
}

export function partsOf(type: string): { readonly configuration: string; readonly pool: string } {
  const [configuration = '', ...pool] = type.split('@')
  return { configuration, pool: pool.join('@') }
}

/** Rounds up, so that the cost is never too low. */
export function diskCostPerHour(pricePerGbMonth: NanoUsd): NanoUsd {
  return nanoUsdOf((pricePerGbMonth * BigInt(ROOT_DISK_GB) + HOURS_PER_MONTH - 1n) / HOURS_PER_MONTH)
}

export function offerOf(
  configuration: Configuration,
  cluster: string,
  pool: string,
  availability: Availability,
  diskCost: NanoUsd,
): CloudOffer {
  return {
    type: typeOf(configuration.name, pool),
    region: cluster,
    kind: 'virtual-machine',
    gpu: gpuText(configuration),
    gpus: configuration.gpus,
    networkType: networkOf(configuration),
    available: availability.available === false ? 0 : (availability.count ?? null),
    costPerHour: nanoUsdOf((availability.price ?? configuration.price) + diskCost),
    cpus: configuration.vcpus,
    ramGb: configuration.memory,
    storageGb: configuration.storage,
  }
}

/** A server that was just ordered has the state `na`. */
const startingStates: readonly string[] = ['NA', 'PLANNED', 'PENDING', 'PENDING_RESOURCES', 'PENDING_READINESS']

export interface ServerPrices {
  /** The price in the server's pool. undefined: the list price applies. */
  readonly compute: NanoUsd | undefined
  readonly disk: NanoUsd
}

/** `configuration` undefined: the cloud no longer sells it. */
export function showServer(
  server: Server,
  configuration: Configuration | undefined,
  prices: ServerPrices,
): CloudMachine {
  const status = (server.status ?? 'UNKNOWN').toUpperCase()
  const compute = prices.compute ?? configuration?.price ?? zeroUsd
  // A machine that was stopped through the API or the console keeps only its disk.
  const costs: Readonly<Record<string, NanoUsd>> = {
    ONLINE: nanoUsdOf(compute + prices.disk),
    OFFLINE: prices.disk,
  }
  const base = { id: `${server.cluster}/${server.id}`, tag: server.id, costPerHour: costs[status] ?? zeroUsd }
  const message = `Denvr reports the state ${status}.`
  if (startingStates.includes(status) || (status === 'ONLINE' && (server.ip ?? '') === ''))
    return { ...base, state: 'starting', message: status }
  if (status === 'ONLINE') return { ...base, state: 'running', data: dataOf(server, configuration) }
  if (/^(?:DESTROY|DELET|TERMINAT)/.test(status)) return { ...base, state: 'stopping' }
  if (/^(?:FAILED|ERROR)/.test(status) && (server.ip ?? '') === '')
    return { ...base, state: 'failed', failure: 'boot_failed', message }
  return { ...base, state: 'unreachable', message }
}

function gpuText(configuration: Configuration | undefined): string {
  return configuration?.text_name ?? configuration?.gpu_name ?? configuration?.name ?? ''
}

function networkOf(configuration: Configuration | undefined): 'infiniband' | 'ethernet' {
  return /infiniband/i.test(configuration?.compute_network ?? '') ? 'infiniband' : 'ethernet'
}

function dataOf(server: Server, configuration: Configuration | undefined): ProviderData {
  const formFactor = gpuOf(gpuText(configuration))?.formFactor ?? undefined
  const host = server.ip ?? ''
  return {
    providerId: 'denvr',
    resources: {
      cpuModel: 'x86-64',
      vcpuCount: server.vcpus ?? configuration?.vcpus ?? 0,
      gpuCount: server.gpus ?? configuration?.gpus ?? 0,
      ramGb: server.memory ?? configuration?.memory ?? 0,
      storageGb: server.storage ?? configuration?.storage ?? 0,
    },
    poolType: (server.rpool ?? PUBLIC_POOL) === PUBLIC_POOL ? 'public' : 'contracted',
    sshNetworking: [{ host, port: 22, user: LOGIN_USER }],
    nodeNetworking: [{ publicIp: host, privateIp: server.privateIp ?? '' }],
    networkType: networkOf(configuration),
    ...(formFactor === undefined ? {} : { gpuFormFactor: formFactor }),
  }
}
