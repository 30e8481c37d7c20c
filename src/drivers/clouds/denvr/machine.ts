/** Configurations and servers of Denvr as offers and machines of the port. */
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../../../base/money.ts'
import type { ProviderData } from '../../../contract/provider-data.ts'
import type { CloudMachine, CloudOffer } from '../cloud.ts'
import { gpuOf } from '../offer.ts'
import type { Availability, Configuration, Server } from './api.ts'

export const LOGIN_USER = 'ubuntu'
/** The root disk, which is bought with the machine and billed apart from it. */
export const ROOT_DISK_GB = 500
const HOURS_PER_MONTH = 730n
/** The pool that all customers share. Others belong to a contract. */
const PUBLIC_POOL = 'on-demand'

/** A type is a configuration in a pool: `H100_80GB_SXM_8x@on-demand`. */
export function typeOf(configuration: string, pool: string): string {
  return `${configuration}@${pool}`
}

export function partsOf(type: string): { readonly configuration: string; readonly pool: string } {
  const [configuration = '', ...pool] = type.split('@')
  return { configuration, pool: pool.join('@') }
}

/** Rounded up: the cost is never too low. */
export function diskCostPerHour(pricePerGbMonth: NanoUsd): NanoUsd {
  return nanoUsdOf((pricePerGbMonth * BigInt(ROOT_DISK_GB) + HOURS_PER_MONTH - 1n) / HOURS_PER_MONTH)
}

export function offerOf(
  one: Configuration,
  cluster: string,
  pool: string,
  free: Availability,
  diskCost: NanoUsd,
): CloudOffer {
  return {
    type: typeOf(one.name, pool),
    region: cluster,
    kind: 'virtual-machine',
    gpu: gpuText(one),
    gpus: one.gpus,
    networkType: networkOf(one),
    available: free.available === false ? 0 : (free.count ?? null),
    costPerHour: nanoUsdOf((free.price ?? one.price) + diskCost),
    cpus: one.vcpus,
    ramGb: one.memory,
    storageGb: one.storage,
  }
}

/** A server that was just ordered has the state `na`. */
const startingStates: readonly string[] = ['NA', 'PLANNED', 'PENDING', 'PENDING_RESOURCES', 'PENDING_READINESS']

export interface ServerPrices {
  /** Its price in its pool. undefined: that of the list. */
  readonly compute: NanoUsd | undefined
  readonly disk: NanoUsd
}

/** `one` undefined: the configuration is sold no longer. */
export function showServer(server: Server, one: Configuration | undefined, prices: ServerPrices): CloudMachine {
  const status = (server.status ?? 'UNKNOWN').toUpperCase()
  const compute = prices.compute ?? one?.price ?? zeroUsd
  // A machine that was stopped through the API or the console keeps its disk alone.
  const costs: Readonly<Record<string, NanoUsd>> = {
    ONLINE: nanoUsdOf(compute + prices.disk),
    OFFLINE: prices.disk,
  }
  const base = { id: `${server.cluster}/${server.id}`, tag: server.id, costPerHour: costs[status] ?? zeroUsd }
  const message = `Denvr reports the state ${status}.`
  if (startingStates.includes(status) || (status === 'ONLINE' && (server.ip ?? '') === ''))
    return { ...base, state: 'starting', message: status }
  if (status === 'ONLINE') return { ...base, state: 'running', data: dataOf(server, one) }
  if (/^(?:DESTROY|DELET|TERMINAT)/.test(status)) return { ...base, state: 'stopping' }
  if (/^(?:FAILED|ERROR)/.test(status) && (server.ip ?? '') === '')
    return { ...base, state: 'failed', failure: 'boot_failed', message }
  return { ...base, state: 'unreachable', message }
}

function gpuText(one: Configuration | undefined): string {
  return one?.text_name ?? one?.gpu_name ?? one?.name ?? ''
}

function networkOf(one: Configuration | undefined): 'infiniband' | 'ethernet' {
  return /infiniband/i.test(one?.compute_network ?? '') ? 'infiniband' : 'ethernet'
}

function dataOf(server: Server, one: Configuration | undefined): ProviderData {
  const formFactor = gpuOf(gpuText(one))?.formFactor ?? undefined
  const host = server.ip ?? ''
  return {
    providerId: 'denvr',
    resources: {
      cpuModel: 'x86-64',
      vcpuCount: server.vcpus ?? one?.vcpus ?? 0,
      gpuCount: server.gpus ?? one?.gpus ?? 0,
      ramGb: server.memory ?? one?.memory ?? 0,
      storageGb: server.storage ?? one?.storage ?? 0,
    },
    poolType: (server.rpool ?? PUBLIC_POOL) === PUBLIC_POOL ? 'public' : 'contracted',
    sshNetworking: [{ host, port: 22, user: LOGIN_USER }],
    nodeNetworking: [{ publicIp: host, privateIp: server.privateIp ?? '' }],
    networkType: networkOf(one),
    ...(formFactor === undefined ? {} : { gpuFormFactor: formFactor }),
  }
}
