/** The workbench of the conformance suite: the driver under test, tags, polling; the harness that each driver provides. */
import { randomBytes } from 'node:crypto'
import { MINUTE_MS, SECOND_MS } from '../base/instant.ts'
import { parseUsd } from '../base/money.ts'
import { bareMetalRegion, virtualMachineRegion } from '../contract/region.ts'
import { tagOf, tagPrefix, type RentalSpec } from '../domain/rental.ts'
import type { Driver, DriverMachine, DriverVolume, InventoryItem, VolumeDriver } from './driver.ts'

export const resourceFaults = [
  'create-timeout',
  'create-lost',
  'no-capacity',
  'boot-fails',
  'list-lag',
  'vanish',
  'destroy-refused',
  'volume-create-timeout',
  'volume-destroy-refused',
] as const
export type ResourceFault = (typeof resourceFaults)[number]
export type FaultName = ResourceFault | 'unreachable'

/** How to inject a fault: by a label, by other fields of the order, or by a call just before it. */
export type FaultInjection =
  | { readonly label: string }
  | { readonly spec: Partial<RentalSpec> }
  | { readonly arm: () => void | Promise<void> }

export interface ConformanceHarness {
  readonly driver: Driver
  /** Lets time pass at the provider. */
  advance(ms: number): Promise<void>
  /** An order that the provider can fill at least twice at the same time. */
  spec(overrides?: Partial<RentalSpec>): RentalSpec
  /** All faults except those in `ConformanceOptions.cannot`. */
  readonly faults: Readonly<Partial<Record<FaultName, FaultInjection>>>
  /** Elastic drivers have it (`DriverTraits.elastic`). */
  readonly elastic?: ElasticHarness
  dispose(): Promise<void>
}

/** One offer of the provider under test, which can be changed behind the driver's back. */
export interface ElasticHarness {
  readonly offerId: string
  /** An order for that many units of the offer, at a price that pays for them. */
  order(units: number, overrides?: Partial<RentalSpec>): RentalSpec
  /** Total number of units that the provider can have, including ours. */
  setCapacity(units: number): void | Promise<void>
  /** More than `order` pays. */
  raiseCost(): void | Promise<void>
  withdraw(): void | Promise<void>
}

export interface ConformanceOptions {
  /** Faults that the provider cannot have, with the reason. */
  readonly cannot?: Readonly<Partial<Record<FaultName, string>>>
  /** Defaults to all. A provider may need other machines for its volumes, or reboot machines but not turn them off. */
  readonly parts?: ReadonlyArray<'machines' | 'volumes' | 'power' | 'reboot'>
  /** The driver has offers (`DriverTraits.elastic`), and its harness an `ElasticHarness`. */
  readonly elastic?: boolean
  /** The driver's volumes are disks: attached to one machine at a time. */
  readonly volumesAreDisks?: true
  /** Machines have their volumes from the start, and only then. */
  readonly volumesAreFixed?: true
}

const STEP_MS = SECOND_MS
const PATIENCE_MS = 15 * MINUTE_MS

export class Bench {
  readonly driver: Driver
  readonly signal = new AbortController().signal
  /** Random, so that leftovers of an earlier run at a real provider are not taken for ours. */
  readonly installationId = randomBytes(5).toString('hex')
  readonly prefix = tagPrefix(this.installationId)
  readonly #harness: ConformanceHarness
  #tags = 0

  constructor(harness: ConformanceHarness) {
    this.#harness = harness
    this.driver = harness.driver
  }

  /** Destroys what the test left: at a real provider it would cost money. */
  async clear(): Promise<void> {
    const { driver, prefix, signal } = this
    const end = async (engine: Driver | VolumeDriver): Promise<void> => {
      const remaining = await engine.list(prefix, signal)
      await Promise.allSettled(remaining.map(({ externalId }) => engine.destroy(externalId, signal)))
    }
    try {
      await Promise.allSettled([driver, ...(driver.volumes ? [driver.volumes] : [])].map(end))
    } finally {
      await this.#harness.dispose()
    }
  }

  newTag(noun: 'rental' | 'volume' = 'rental'): string {
    this.#tags += 1
    return tagOf(this.installationId, noun, { id: this.#tags, nonce: 'c0ffee00' })
  }

  unknownId(): string {
    return `unknown-${this.installationId}`
  }

  spec(overrides?: Partial<RentalSpec>): RentalSpec {
    return this.#harness.spec(overrides)
  }

  async advance(ms: number): Promise<void> {
    await this.#harness.advance(ms)
  }

  canInject(name: FaultName): boolean {
    return this.#harness.faults[name] !== undefined
  }

  /** The fields of the order that cause the fault. */
  async inject(name: FaultName): Promise<Partial<RentalSpec>> {
    const fault = this.#harness.faults[name]
    if (fault === undefined) throw new Error(`the harness of ${this.driver.id} cannot inject the fault ${name}`)
    if ('label' in fault) return { label: fault.label }
    if ('spec' in fault) return fault.spec
    await fault.arm()
    return {}
  }

  /** Injects a fault into a volume, whose order has only a label. */
  async injectVolume(name: FaultName): Promise<{ label?: string }> {
    const { label } = await this.inject(name)
    return label === undefined || label === null ? {} : { label }
  }

  elastic(): ElasticHarness {
    if (this.#harness.elastic === undefined) throw new Error(`${this.driver.id} has no offer to test`)
    return this.#harness.elastic
  }

  volumes(): VolumeDriver {
    if (this.driver.volumes === undefined) throw new Error(`${this.driver.id} holds no volumes`)
    return this.driver.volumes
  }

  async create(spec: RentalSpec = this.spec()): Promise<{ tag: string; externalId: string }> {
    const tag = this.newTag()
    const outcome = await this.driver.create(tag, spec, this.signal)
    if (outcome.kind !== 'created') throw new Error(`the engine ${outcome.kind} an ordinary order: ${outcome.message}`)
    if (outcome.externalId === '') throw new Error('the engine answered a create without an id')
    return { tag, externalId: outcome.externalId }
  }

  volumeSpec(fault: { label?: string } = {}) {
    return { region: this.spec().region, label: 'conformance', sizeGb: 256, ...fault }
  }

  async createVolume(volumes: VolumeDriver, fault?: { label?: string }) {
    const tag = this.newTag('volume')
    const outcome = await volumes.create(tag, this.volumeSpec(fault), this.signal)
    if (outcome.kind === 'refused') throw new Error(`the engine refused an ordinary volume: ${outcome.message}`)
    return { tag, externalId: outcome.externalId, vip: outcome.vip }
  }

  async listedIds(): Promise<string[]> {
    const machines = await this.driver.list(this.prefix, this.signal)
    return machines.map((machine) => machine.externalId).sort()
  }

  async findVolume(volumes: VolumeDriver, externalId: string): Promise<DriverVolume | undefined> {
    return (await volumes.list(this.prefix, this.signal)).find((volume) => volume.externalId === externalId)
  }

  untilState(externalId: string, state: DriverMachine['state']): Promise<DriverMachine> {
    return this.eventually(`the machine is ${state}`, async () => {
      const machines = await this.driver.list(this.prefix, this.signal)
      return machines.find((machine) => machine.externalId === externalId && machine.state === state)
    })
  }

  async untilAbsent(externalId: string): Promise<void> {
    await this.eventually(
      'the machine is gone',
      async () => !(await this.listedIds()).includes(externalId) || undefined,
    )
  }

  /** Absent, or failed if the provider knows of the loss. */
  async untilLost(externalId: string): Promise<void> {
    await this.eventually('the machine is gone or has failed', async () => {
      const machines = await this.driver.list(this.prefix, this.signal)
      const machine = machines.find((one) => one.externalId === externalId)
      return machine === undefined || machine.state === 'failed' || undefined
    })
  }

  async untilVolumeAbsent(volumes: VolumeDriver, externalId: string): Promise<void> {
    await this.eventually('the volume is gone', async () => !(await this.findVolume(volumes, externalId)) || undefined)
  }

  /** Repeats until it succeeds. */
  async retryUntilDone(ask: () => Promise<void>): Promise<void> {
    await this.eventually('the call succeeds', () =>
      ask().then(
        () => true,
        () => undefined,
      ),
    )
  }

  async eventually<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
    for (let waitedMs = 0; waitedMs <= PATIENCE_MS; waitedMs += STEP_MS) {
      const value = await look()
      if (value !== undefined) return value
      await this.advance(STEP_MS)
    }
    throw new Error(`not within ${PATIENCE_MS / MINUTE_MS} min: ${what}`)
  }
}

/** Some simulations inject faults by label. */
export function faultsByLabel(labelOf: (name: ResourceFault) => string): Record<ResourceFault, FaultInjection> {
  const entries = resourceFaults.map((name) => [name, { label: labelOf(name) }] as const)
  return Object.fromEntries(entries) as Record<ResourceFault, FaultInjection>
}

/** An order as the server writes it. */
export function sampleSpec(overrides: Partial<RentalSpec> = {}): RentalSpec {
  return {
    kind: 'virtual-machine',
    name: 'brave-teal-otter',
    label: null,
    region: 'mock-region',
    clusterName: 'mock-lab-vm-h100-ethernet',
    gpuType: 'h100',
    gpuModel: 'NVIDIA-H100-SXM5-80GB',
    gpuFormFactor: 'sxm5',
    gpuCount: 2,
    networkType: 'ethernet',
    nodes: [{ machineId: 'mock-lab-h100-01', gpuIndexes: [0, 1] }],
    resources: { cpuModel: 'Intel Xeon Platinum 8480C', cpuCount: 56, ramGb: 512, storageGb: 7_680 },
    sshKeys: ['ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGXu5nVxHmSpDCxlxFCdvFnBBtVRmCBkmuz6dGXZ8Kwk test'],
    ports: [],
    image: null,
    cudaVersion: null,
    monitoringEnabled: false,
    ...overrides,
  }
}

/** Violations of schema/baseline/06_machine.sql and of the interface. */
export function violationsOf(machine: InventoryItem): string[] {
  const gpusSick = 'gpusSick' in machine ? machine.gpusSick : []
  const offer = 'available' in machine ? machine : undefined
  const cost = offer?.costUsdPerGpuHour ?? '0'
  const isMarketplace = machine.offering === 'marketplace'
  const regions = machine.offering === 'bare-metal' ? bareMetalRegion : virtualMachineRegion
  const price = machine.priceUsdPerGpuHour === null ? undefined : parseUsd(machine.priceUsdPerGpuHour)
  const { cpuModel, gpuInterface, cpuCores, virtualCores, ramGb, storageGb, gpuClockMhz, gpuComputePower } =
    machine.hardware
  const amounts = [cpuCores, virtualCores, ramGb, storageGb, gpuClockMhz, gpuComputePower]
  const rules: Record<string, boolean> = {
    'the id has 1 to 100 characters': machine.id.length >= 1 && machine.id.length <= 100,
    'cluster and region have names': machine.clusterName !== '' && machine.region !== '',
    'the region is in the interface': isMarketplace || regions.safeParse(machine.region).success,
    'GPU type and form factor can be ordered':
      isMarketplace || (machine.gpuType !== null && machine.gpuFormFactor !== null),
    'only marketplace machines have a price': isMarketplace === (machine.priceUsdPerGpuHour !== null),
    'the price is an amount': !isMarketplace || (price !== undefined && price >= 0n),
    '1 to 64 GPUs': Number.isInteger(machine.gpusTotal) && machine.gpusTotal >= 1 && machine.gpusTotal <= 64,
    'sick GPUs are indexes of its GPUs': gpusSick.every(
      (gpu) => Number.isInteger(gpu) && gpu >= 0 && gpu < machine.gpusTotal,
    ),
    'each sick GPU is listed once': new Set(gpusSick).size === gpusSick.length,
    'an offer’s count is a whole number or null':
      offer === undefined || offer.available === null || isCount(offer.available),
    'an offer’s cost is an amount': (parseUsd(cost) ?? -1n) >= 0n,
    'an offer’s id leaves room for the numbers of its units': offer === undefined || offer.id.length <= 90,
    'GPU model and RAM': machine.gpuModel !== '' && Number.isInteger(machine.gpuRamMib) && machine.gpuRamMib > 0,
    'only ethernet has a variant': machine.networkType === 'ethernet' || machine.ethernetVariant === null,
    'hardware is described': cpuModel !== '' && gpuInterface !== '' && amounts.every((amount) => amount > 0),
  }
  return Object.keys(rules).filter((rule) => !rules[rule])
}

function isCount(value: number): boolean {
  return Number.isInteger(value) && value >= 0
}
