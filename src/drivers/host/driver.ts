/**
 * Hosts with our agent, rented as containers or virtual machines. Create and destroy only record the desired state and
 * never wait for the host, so an offline host loses nothing; a pending destroy is listed as `stopping`.
 *
 * Customers connect through ports of the server (server/hosts/relay.ts), since hosts are behind routers.
 */
import { randomBytes } from 'node:crypto'
import type { Clock } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { ProviderData } from '../../contract/provider-data.ts'
import { isSilent } from '../../domain/host.ts'
import { wholeOf, type RentalSpec } from '../../domain/rental.ts'
import { openPortsOf } from '../../domain/workload.ts'
import type { Driver, InventoryMachine, VolumeDriver } from '../driver.ts'
import { diskDriver } from './disk.ts'
import { hostPower } from './power.ts'
import { showWorkload, waitForHosts } from './show.ts'
import type { HostWorld, KnownHost, KnownWorkload } from './world.ts'

export interface HostDriverOptions {
  readonly world: HostWorld
  readonly clock: Clock
  /** Public address of the relay. */
  readonly relayHost: string
  /** Overcommit factor for disks. */
  readonly overcommit?: number
  /** Whether hosts with simulated GPUs serve orders by GPU type. */
  readonly sellSimulated?: boolean
}

const CALL_TIMEOUT_MS = 15_000
const ID_BYTES = 8
/** `target` of the public port for SSH. */
const SSH_TARGET = 0

export function hostDriver(options: HostDriverOptions): Driver & { readonly volumes: VolumeDriver } {
  const { world, clock, relayHost } = options
  const listeningSince = clock.now()
  return {
    id: 'host',
    traits: {
      simulated: false,
      elastic: false,
      ssh: true,
      logs: true,
      terminal: true,
      metrics: true,
      ports: 'relayed',
      power: {
        stop: ['container', 'virtual-machine'],
        reboot: ['container', 'virtual-machine'],
        move: ['container'],
      },
      downloads: true,
      groups: true,
      keepsOutput: true,
    },
    listLagMs: 0,
    callTimeoutMs: CALL_TIMEOUT_MS,
    power: hostPower(world),
    volumes: diskDriver(world, { clock, overcommit: options.overcommit ?? 1 }),

    async check(signal) {
      signal.throwIfAborted()
      await world.check()
    },
    async inventory(signal) {
      signal.throwIfAborted()
      const hosts = await world.listHosts('host')
      const isSellable = ({ offer }: KnownHost): boolean => options.sellSimulated === true || isClearlyLabelled(offer)
      return hosts.filter((host) => isOnSale(host, clock) && isSellable(host)).map(inventoryMachine)
    },
    async create(tag, spec, signal) {
      signal.throwIfAborted()
      const added = await world.addWorkload({
        id: `w-${randomBytes(ID_BYTES).toString('hex')}`,
        driver: 'host',
        tag,
        spec,
        relayed: [SSH_TARGET, ...openPortsOf(spec)],
      })
      if (added.kind === 'refused') return { kind: 'refused', reason: 'no_capacity', message: added.message }
      return { kind: 'created', externalId: added.id }
    },
    async destroy(externalId, signal) {
      signal.throwIfAborted()
      await world.requestDestroy(externalId)
    },
    async tidy(signal) {
      signal.throwIfAborted()
      await world.dropCopies()
    },
    async list(tagPrefix, signal) {
      signal.throwIfAborted()
      const now = clock.now()
      const workloads = await world.listWorkloads('host', tagPrefix)
      waitForHosts(workloads, now, listeningSince)
      return workloads.map((workload) =>
        showWorkload(workload, now, (spec) => providerDataOf(workload, spec, relayHost)),
      )
    },
  }
}

/** The marketplace shows that GPUs are simulated; an order by GPU type does not show the machine. */
function isClearlyLabelled(offer: KnownHost['offer']): boolean {
  return !offer.simulated || offer.offering === 'marketplace'
}

export function isOnSale(host: KnownHost, clock: Clock): boolean {
  return host.state !== 'left' && host.fault === null && !isSilent(host.seenAt, clock.now())
}

export function inventoryMachine({ id, supplierId, offer }: KnownHost): InventoryMachine {
  const { simulated, hardware, cluster: _, ...rest } = offer
  return { id, supplier: supplierId, ...rest, hardware: simulated ? { ...hardware, simulated } : hardware }
}

function providerDataOf(workload: KnownWorkload, spec: RentalSpec, relayHost: string): ProviderData | undefined {
  const ssh = workload.relay.find(({ target }) => target === SSH_TARGET)
  const user = workload.nodes[0]?.sshUser ?? undefined
  if (ssh === undefined || user === undefined) return undefined
  const { cpuModel, cpuCount, ramGb, storageGb } = wholeOf(spec)
  return {
    providerId: 'host',
    externalId: workload.id,
    resources: {
      cpuModel,
      vcpuCount: cpuCount,
      gpuCount: spec.nodes.reduce((sum, { gpuIndexes }) => sum + gpuIndexes.length, 0),
      ramGb,
      storageGb,
    },
    sshNetworking: [{ host: relayHost, port: ssh.port, user }],
    networkType: spec.networkType,
    ...(spec.gpuFormFactor === null ? {} : { gpuFormFactor: spec.gpuFormFactor }),
    ...(spec.ports.length === 0 ? {} : { customPorts: spec.ports.slice(0, limits.customPorts) }),
  }
}
