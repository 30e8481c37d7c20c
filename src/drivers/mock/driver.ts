/**
 * The simulated provider and reference driver: everything that the port allows can happen here. Random values come from
 * a hash of seed and tag, so that a rental behaves the same in every run. Its state is in a `MockWorld` and survives a
 * killed server.
 */
import type { Clock, Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { ProviderData } from '../../contract/provider-data.ts'
import { wholeOf } from '../../domain/rental.ts'
import type { Driver, DriverMachine, InventoryMachine, VolumeDriver, VolumeOutcome } from '../driver.ts'
import { ATTACH_REFUSALS, faultsOf } from './faults.ts'
import { mockFleet } from './fleet.ts'
import { chance, make, refused, type Engine } from './make.ts'
import { powerDriver } from './power.ts'
import { createOnOffer, listOffers, offerOf, type MockOffer } from './offers.ts'
import { simulateUse } from './use.ts'
import { isGone, isListed, type MockMachine, type MockVolume, type MockWorld } from './world.ts'

export interface MockOptions {
  readonly world: MockWorld
  readonly clock: Clock
  readonly seed?: string
  /** Boot time, varied by 50 percent either way. */
  readonly bootMs?: number
  /** Teardown time of machines and volumes, varied likewise. */
  readonly destroyMs?: number
  /** The longest list lag. */
  readonly listLagMs?: number
  readonly fleet?: readonly InventoryMachine[]
  /** Offers of an elastic provider, besides the fleet. Read on every call, since offers change. */
  readonly offers?: () => readonly MockOffer[]
}

const CALL_TIMEOUT_MS = 5_000
const CONTAINER_SSH_PORTS = { from: 20_000, count: 20_000 }

/** The defaults suit a demo: every state is visible, and nothing takes long. */
export function mockDriver(options: MockOptions): Driver & Required<Pick<Driver, 'volumes' | 'power'>> {
  const { world, clock, seed = 'berth', bootMs = 6_000, destroyMs = 3_000, listLagMs = 1_000 } = options
  const fleet = options.fleet ?? mockFleet()
  const engine: Engine = { world, clock, seed, bootMs, destroyMs, listLagMs }
  const offers = options.offers ?? (() => [])

  return {
    id: 'mock',
    traits: {
      simulated: true,
      elastic: options.offers !== undefined,
      ssh: true,
      logs: false,
      terminal: false,
      metrics: false,
      ports: 'direct',
      power: {
        stop: ['container', 'virtual-machine'],
        reboot: ['container', 'virtual-machine', 'bare-metal'],
        move: ['container'],
      },
      groups: true,
    },
    listLagMs,
    callTimeoutMs: CALL_TIMEOUT_MS,

    async check(signal) {
      signal.throwIfAborted()
      await world.check()
    },
    async inventory(signal) {
      signal.throwIfAborted()
      await world.check()
      return [...fleet, ...(await listOffers(engine, offers()))]
    },
    async create(tag, spec, signal) {
      signal.throwIfAborted()
      const faults = faultsOf(spec.label)
      if (faults.has('fault-no-capacity')) return refused('no_capacity', 'The engine has no capacity left.')
      if (faults.has('fault-create-refused')) return refused('rejected_by_provider', 'The engine refused the request.')
      if (offerOf(spec) !== undefined) return createOnOffer(engine, offers(), tag, spec)
      const externalId = await make(engine, 'm', tag, faults, (life) => world.addMachine({ ...life, spec }))
      return { kind: 'created', externalId }
    },
    async destroy(externalId, signal) {
      signal.throwIfAborted()
      const now = clock.now()
      const machine = await world.requestMachineDestroy(externalId, now)
      if (machine !== undefined) throwUnlessAccepted(machine, machine.spec.label, now)
    },
    async list(tagPrefix, signal) {
      signal.throwIfAborted()
      const now = clock.now()
      const machines = await world.listMachines(tagPrefix, now)
      return machines.filter((machine) => isListed(machine, now)).map((machine) => showMachine(seed, machine, now))
    },
    volumes: volumeDriver(engine),
    simulateUse,
    power: powerDriver(engine),
  }
}

function volumeDriver(engine: Engine): VolumeDriver {
  const { world, clock, seed } = engine
  return {
    serves: ['bare-metal', 'virtual-machine', 'container'],
    attaches: ['bare-metal'],
    isLocal: false,
    regions: 'all',
    copies: true,
    async create(tag, { region, label, sizeGb }, signal): Promise<VolumeOutcome> {
      signal.throwIfAborted()
      const faults = faultsOf(label)
      if (faults.has('fault-no-capacity'))
        return refused('no_storage_capacity', 'The engine has no room for the volume.')
      if (faults.has('fault-create-refused')) return refused('rejected_by_provider', 'The engine refused the volume.')
      const vip = `198.51.100.${1 + Math.floor(chance(seed, 'vip', tag) * 254)}`
      const attachRefusalsLeft = faults.has('fault-attach-refused') ? ATTACH_REFUSALS : 0
      const externalId = await make(engine, 'v', tag, faults, (life) =>
        world.addVolume({ ...life, label, region, sizeGb, vip, attachRefusalsLeft, attachedTo: [] }),
      )
      return { kind: 'created', externalId, vip }
    },
    async grow(externalId, sizeGb, signal) {
      signal.throwIfAborted()
      const isThere = await world.growVolume(externalId, sizeGb)
      return isThere ? { kind: 'grown' } : { kind: 'refused', message: 'The simulated engine has no such volume.' }
    },
    async destroy(externalId, signal) {
      signal.throwIfAborted()
      const now = clock.now()
      const volume = await world.askVolumeDestroy(externalId, now)
      if (volume !== undefined) throwUnlessAccepted(volume, volume.label, now)
    },
    async list(tagPrefix, signal) {
      signal.throwIfAborted()
      const now = clock.now()
      const volumes = await world.listVolumes(tagPrefix, now)
      return volumes.filter((volume) => isListed(volume, now)).map(showVolume)
    },
    async attach(externalId, machineExternalId, signal) {
      signal.throwIfAborted()
      const volume = await world.attachVolume(externalId, machineExternalId, clock.now())
      if (volume === undefined) throw new Error('The simulated engine has no such volume or machine.')
      if (!volume.attachedTo.includes(machineExternalId))
        throw new Error('The simulated engine refused to attach the volume.')
    },
    async detach(externalId, machineExternalId, signal) {
      signal.throwIfAborted()
      await world.detachVolume(externalId, machineExternalId)
    },
  }
}

function throwUnlessAccepted(resource: MockMachine | MockVolume, label: string | null, now: Instant): void {
  if (isGone(resource, now)) return
  if (resource.destroyAskedAt === null) {
    const isAttached = 'attachedTo' in resource && resource.attachedTo.length > 0
    throw new Error(`The simulated engine refused to destroy it${isAttached ? ': the volume is attached' : ''}.`)
  }
  if (faultsOf(label).has('fault-destroy-timeout')) {
    throw new Error('The destroy call to the simulated engine timed out.')
  }
}

function showVolume({ externalId, tag, vip, attachedTo }: MockVolume) {
  return { externalId, tag, vip, attachedTo }
}

function showMachine(seed: string, machine: MockMachine, now: Instant): DriverMachine {
  const { externalId, tag, destroyAskedAt, failedAt, runningAt, offAt } = machine
  const machineId = machine.spec.nodes[0]?.machineId
  const on = machineId === undefined ? {} : { machineId }
  if (destroyAskedAt !== null) return { externalId, tag, state: 'stopping' }
  if (offAt !== null && offAt <= now) return { externalId, tag, state: 'stopped', ...on }
  if (failedAt !== null && failedAt <= now) return { externalId, tag, state: 'failed', failure: 'boot_failed' }
  if (runningAt === null || runningAt > now) return { externalId, tag, state: 'starting' }
  return {
    externalId,
    tag,
    state: 'running',
    ...on,
    // Only new machines are asked for it.
    get data() {
      return providerDataOf(seed, machine)
    },
  }
}

function providerDataOf(seed: string, { externalId, tag, spec }: MockMachine): ProviderData {
  const portOffset = Math.floor(chance(seed, 'port', externalId) * CONTAINER_SSH_PORTS.count)
  const port = spec.kind === 'container' ? CONTAINER_SSH_PORTS.from + portOffset : 22
  const nodeCount = Math.max(1, spec.nodes.length)
  const nodes = Array.from({ length: nodeCount }, (_, i) => ({
    publicIp: addressOf(seed, tag, i, nodeCount),
    privateIp: `10.0.${Math.floor(i / 250)}.${2 + (i % 250)}`,
  }))
  const { cpuModel, cpuCount, ramGb, storageGb } = wholeOf(spec)
  return {
    providerId: 'mock',
    externalId,
    resources: { cpuModel, vcpuCount: cpuCount, gpuCount: spec.gpuCount, ramGb, storageGb },
    sshNetworking: nodes.map(({ publicIp }) => ({ host: publicIp, port, user: 'ubuntu' })),
    networkType: spec.networkType,
    ...(nodes.length > 1 ? { nodeNetworking: nodes } : {}),
    ...(spec.gpuFormFactor === null ? {} : { gpuFormFactor: spec.gpuFormFactor }),
    ...(spec.ports.length === 0 ? {} : { customPorts: spec.ports.slice(0, limits.customPorts) }),
  }
}

const SINGLE_MACHINES = 65_536
const CLUSTERS = 1_024
const NODES_PER_CLUSTER = 64

/**
 * Addresses in 198.18.0.0/15, which is reserved for benchmarks and never routed. Derived from the rental id, so that
 * running rentals never share one: single machines are in 198.18, clusters have a block each in 198.19.
 */
function addressOf(seed: string, tag: string, node: number, nodeCount: number): string {
  const [, digits] = /-(\d{1,10})-[0-9a-f]+$/.exec(tag) ?? []
  const number = digits === undefined ? Math.floor(chance(seed, 'address', tag) * SINGLE_MACHINES) : Number(digits)
  const [net, at] =
    nodeCount === 1
      ? [18, number % SINGLE_MACHINES]
      : [19, (number % CLUSTERS) * NODES_PER_CLUSTER + (node % NODES_PER_CLUSTER)]
  return `198.${net}.${Math.floor(at / 256)}.${at % 256}`
}
