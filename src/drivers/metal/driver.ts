/**
 * The operator's bare-metal hosts over SSH, rented whole, one or several at a time. The desired state is recorded as for
 * hosts with an agent; the server itself does the agent's work over SSH (keep.ts). Tenants connect directly.
 */
import { randomBytes } from 'node:crypto'
import type { Clock } from '../../base/instant.ts'
import type { ProviderData } from '../../contract/provider-data.ts'
import { wholeOf, type RentalSpec } from '../../domain/rental.ts'
import type { Driver } from '../driver.ts'
import { inventoryMachine, isOnSale } from '../host/driver.ts'
import { hostPower } from '../host/power.ts'
import { showWorkload, waitForHosts } from '../host/show.ts'
import type { HostWorld, KnownWorkload } from '../host/world.ts'
import type { FolderDriver } from './volumes.ts'

export interface MetalDriverOptions {
  readonly world: HostWorld
  readonly clock: Clock
  /** Absent: no file server. */
  readonly volumes?: FolderDriver
}

const CALL_TIMEOUT_MS = 30_000
const ID_BYTES = 8

export function metalDriver({ world, clock, volumes }: MetalDriverOptions): Driver {
  const listeningSince = clock.now()
  return {
    id: 'private-cloud',
    traits: {
      simulated: false,
      elastic: false,
      ssh: true,
      logs: false,
      terminal: false,
      metrics: true,
      ports: 'direct',
      power: { stop: [], reboot: ['bare-metal'] },
    },
    listLagMs: 0,
    callTimeoutMs: CALL_TIMEOUT_MS,
    ...(volumes === undefined ? {} : { volumes }),
    power: hostPower(world),

    async check(signal) {
      signal.throwIfAborted()
      await world.check()
    },
    async inventory(signal) {
      signal.throwIfAborted()
      const hosts = await world.listHosts('private-cloud')
      return hosts.filter((host) => isOnSale(host, clock)).map(inventoryMachine)
    },
    async create(tag, spec, signal) {
      signal.throwIfAborted()
      const id = `m-${randomBytes(ID_BYTES).toString('hex')}`
      const outcome = await world.addWorkload({ id, driver: 'private-cloud', tag, spec, relayed: [] })
      if (outcome.kind === 'refused') return { kind: 'refused', reason: 'no_capacity', message: outcome.message }
      return { kind: 'created', externalId: outcome.id }
    },
    async destroy(externalId, signal) {
      signal.throwIfAborted()
      await world.requestDestroy(externalId)
      // Revoke access to volumes now, not when the next tenant arrives.
      await volumes?.syncClients(signal)
    },
    async list(tagPrefix, signal) {
      signal.throwIfAborted()
      const now = clock.now()
      const workloads = await world.listWorkloads('private-cloud', tagPrefix)
      waitForHosts(workloads, now, listeningSince)
      return workloads.map((workload) => showWorkload(workload, now, (spec) => providerDataOf(workload, spec)))
    },
  }
}

function providerDataOf(workload: KnownWorkload, spec: RentalSpec): ProviderData | undefined {
  const nodes = workload.nodes.flatMap(({ index, address, sshUser }) =>
    address === null || sshUser === null ? [] : [{ index, address, sshUser }],
  )
  const head = nodes[0]
  if (head === undefined || nodes.length < workload.nodes.length) return undefined
  const { cpuModel, cpuCount, ramGb, storageGb } = wholeOf(spec)
  return {
    providerId: 'private-cloud',
    externalId: workload.id,
    resources: { cpuModel, cpuCount, gpuCount: spec.gpuCount, ramGb, storageGb },
    gpuModel: spec.gpuModel,
    location: spec.region,
    sshUser: head.sshUser,
    sshPort: head.address.sshPort,
    sshNetworking: nodes.map(({ address, sshUser }) => ({
      host: address.publicIp,
      port: address.sshPort,
      user: sshUser,
    })),
    nodes: nodes.map(({ index, address }) => ({
      role: index === 0 ? ('head' as const) : ('compute' as const),
      hostname: address.hostname,
      publicIp: address.publicIp,
      privateIp: address.privateIp,
    })),
    ...(nodes.length > 1
      ? { nodeNetworking: nodes.map(({ address: { publicIp, privateIp } }) => ({ publicIp, privateIp })) }
      : {}),
    networkType: spec.networkType,
    ...(spec.gpuFormFactor === null ? {} : { gpuFormFactor: spec.gpuFormFactor }),
  }
}
