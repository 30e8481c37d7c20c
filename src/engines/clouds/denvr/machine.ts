/** Configurations and servers of Denvr as offers and machines of the port. */
import { zeroUsd, type NanoUsd } from '../../../base/money.ts'
import type { ProviderData } from '../../../contract/provider-data.ts'
import type { CloudMachine, CloudOffer } from '../cloud.ts'
import { gpuOf } from '../offer.ts'
import type { Availability, Configuration, Server } from './api.ts'

export const LOGIN_USER = 'ubuntu'
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

export function offerOf(one: Configuration, cluster: string, pool: string, free: Availability): CloudOffer {
  return {
    type: typeOf(one.name, pool),
    region: cluster,
    kind: 'virtual-machine',
    gpu: one.gpu_name ?? '',
    gpus: one.gpus,
    networkType: networkOf(one),
    available: free.available === false ? 0 : (free.count ?? null),
    costPerHour: free.price ?? one.price,
    cpus: one.vcpus,
    ramGb: one.memory,
    storageGb: one.storage,
  }
}

const startingStates: readonly string[] = ['PLANNED', 'PENDING', 'PENDING_RESOURCES', 'PENDING_READINESS']

/** `one` undefined: the configuration is sold no longer. */
export function showServer(server: Server, one: Configuration | undefined, price: NanoUsd | undefined): CloudMachine {
  const status = server.status ?? 'UNKNOWN'
  const isBilled = status === 'ONLINE' || status === 'OFFLINE'
  const costPerHour = isBilled ? (price ?? one?.price ?? zeroUsd) : zeroUsd
  const base = { id: `${server.cluster}/${server.id}`, tag: server.id, costPerHour }
  const message = `Denvr reports the state ${status}.`
  if (startingStates.includes(status) || (status === 'ONLINE' && (server.ip ?? '') === ''))
    return { ...base, state: 'starting', message: status }
  if (status === 'ONLINE') return { ...base, state: 'running', data: dataOf(server, one) }
  if (/^(?:DESTROY|DELET|TERMINAT)/.test(status)) return { ...base, state: 'stopping' }
  if (/^(?:FAILED|ERROR)/.test(status) && (server.ip ?? '') === '')
    return { ...base, state: 'failed', failure: 'boot_failed', message }
  return { ...base, state: 'unreachable', message }
}

function networkOf(one: Configuration | undefined): 'infiniband' | 'ethernet' {
  return /infiniband/i.test(one?.compute_network ?? '') ? 'infiniband' : 'ethernet'
}

function dataOf(server: Server, one: Configuration | undefined): ProviderData {
  const formFactor = gpuOf(one?.gpu_name ?? '')?.formFactor ?? undefined
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
