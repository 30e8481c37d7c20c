/**
 * The port to providers: clouds, clusters, hosts. It is small on purpose: create, list, destroy. A driver keeps no
 * state; the server relies only on what `list` returns. Every driver passes `driverConformance` (conformance.ts).
 *
 * Three rules make crashes harmless:
 * - an error thrown by `create` or `destroy` means that the outcome is unknown; `list` tells;
 * - an error thrown by `list` is an error, never an empty list;
 * - a machine is gone when `list` no longer returns it, `listLagMs` after its create.
 *
 * They hold for `power` too: an error means that the outcome is unknown, and `list` tells whether it runs or is stopped.
 */
import type { Instant } from '../base/instant.ts'
import type { NanoUsd } from '../base/money.ts'
import type { StreamRequest } from '../contract/agent.ts'
import type { ClusterCheck, ClusterRecord } from '../contract/cluster.ts'
import type { ProviderData, ProviderId } from '../contract/provider-data.ts'
import type { ProviderCheck, ProviderOffer } from '../contract/provider.ts'
import type { gpuMetricNames, machineMetricNames } from '../contract/rental-metrics.ts'
import type { MachineHardware } from '../domain/machine.ts'
import type { RentalSpec, Mount, RentalKind, Share } from '../domain/rental.ts'
import type { Values } from '../domain/sample.ts'
import type { RuntimeStream } from '../runtimes/runtime.ts'

export interface Driver {
  readonly id: ProviderId
  readonly traits: DriverTraits
  /** How long a new machine may be missing from the list. */
  readonly listLagMs: number
  /** Timeout of one call. After it the outcome is unknown. */
  readonly callTimeoutMs: number
  /** Creates that may be in progress at once. Absent: a usual number. */
  readonly createsAtOnce?: number
  /** How long a machine may take until it runs. Absent: the limit of the state Pending (domain/rental.ts). */
  readonly startLimitMs?: number

  /** Throws, with a sentence, when the provider cannot be reached. */
  check(signal: AbortSignal): Promise<void>
  /** Everything the provider could rent out now. An elastic provider has offers, others have machines; both is fine. */
  inventory(signal: AbortSignal): Promise<InventoryItem[]>
  create(tag: string, spec: RentalSpec, signal: AbortSignal): Promise<CreateOutcome>
  /** Starts the teardown. Succeeds for a machine that is already gone. */
  destroy(externalId: string, signal: AbortSignal): Promise<void>
  /**
   * Removes what an interrupted create may have left besides a machine. Called for an order that ends without one.
   * Absent: nothing can be left, or `companions` finds it.
   */
  discard?(tag: string, signal: AbortSignal): Promise<void>
  /**
   * Removes what the driver keeps for later orders and has kept long enough, such as cached weights. Called every half
   * minute; the driver decides how often it looks. Absent: the driver keeps nothing.
   */
  tidy?(signal: AbortSignal): Promise<void>
  /** All machines whose tag starts with the prefix. */
  list(tagPrefix: string, signal: AbortSignal): Promise<DriverMachine[]>
  /** Absent: the provider has no volumes. */
  readonly volumes?: VolumeDriver
  /**
   * Made-up use of one machine of a simulated rental: the same for the same instant. Absent: hosts report real use, or
   * nothing does.
   */
  simulateUse?(tag: string, spec: RentalSpec, node: number, at: Instant): Values
  /** The use of its running machines now. Absent: agents on hosts report it, or nothing does. */
  measure?(signal: AbortSignal): Promise<MachineUse[]>
  /** Present if `traits.power` names a kind. */
  readonly power?: PowerDriver
  /** Streams into its machines. Absent: agents on hosts open them, or there are none. */
  readonly streams?: StreamDriver
  /** The clusters that the machines come from, for the operator. Absent: the driver has no clusters. */
  readonly clusters?: ClusterDriver
  /** The accounts at other clouds that the machines come from, for the operator. Absent: the driver has none. */
  readonly providers?: ProviderDriver
  /** Things that it makes beside a machine, and that must be removed after it. Absent: there are none. */
  readonly companions?: CompanionDriver
}

/** Accounts are named. undefined: there is no such account. */
export interface ProviderDriver {
  /** How its machines are billed. */
  readonly billing: BillingTerms
  /** Until when no request is sent, because its cloud failed repeatedly. undefined: requests are sent. */
  pausedUntil(name: string): Instant | undefined
  /** The abilities of the account, found out by calls that change nothing. */
  check(name: string, signal: AbortSignal): Promise<ProviderCheck[] | undefined>
  /** All its offers, also those that are not sold here, with the reason. */
  offers(name: string, signal: AbortSignal): Promise<ProviderOffer[] | undefined>
  /** Everything that exists there under the prefix. Throws if the account does not answer: silence is never an empty list. */
  resources(name: string, tagPrefix: string, signal: AbortSignal): Promise<ProviderResource[] | undefined>
}

export interface ProviderResource {
  /** `machine`, `volume`, or what a companion is. */
  readonly what: string
  /** The vendor's id. */
  readonly id: string
  readonly tag: string
  /** Machines have a state. */
  readonly state?: DriverMachine['state']
}

/**
 * SSH keys, scripts, addresses and disks that a provider makes beside a machine. They carry its tag. `create` finds
 * those of an earlier attempt again, and `reap` removes what is left when the order is no longer at this provider.
 */
export interface CompanionDriver {
  list(tagPrefix: string, signal: AbortSignal): Promise<DriverCompanion[]>
  /** Idempotent. */
  remove(companion: DriverCompanion, signal: AbortSignal): Promise<void>
}

export interface DriverCompanion {
  readonly externalId: string
  readonly tag: string
  /** `ssh-key`, `address`, … */
  readonly what: string
}

export interface ClusterDriver {
  /** A cluster that does not answer is in the list, with the reason. */
  list(signal: AbortSignal): Promise<ClusterRecord[]>
  /** The limits between tenants that it enforces, found out by trying. undefined: there is no such cluster. */
  check(name: string, image: string | undefined, signal: AbortSignal): Promise<ClusterCheck[] | undefined>
}

/** The use of a machine of one node. Values that were not measured are null. */
export interface MachineUse {
  readonly externalId: string
  readonly machine: Readonly<Record<(typeof machineMetricNames)[number], number | null>>
  /** `index` is that of the order. */
  readonly gpus: ReadonlyArray<
    { readonly index: number } & Readonly<Record<(typeof gpuMetricNames)[number], number | null>>
  >
}

/** Logs, terminals and ports of machines that the server reaches through their provider. */
export interface StreamDriver {
  /** The machines that can be reached now. */
  machines(): readonly string[]
  /** `workloadId` of the request is the provider's id of a machine. */
  open(request: StreamRequest, signal: AbortSignal): Promise<RuntimeStream>
}

/** All are idempotent and return before the machine has changed. */
export interface PowerDriver {
  /** Turns a machine off and keeps its disk and addresses. It stays off until `start`, also across restarts of its host. */
  stop(externalId: string, signal: AbortSignal): Promise<void>
  /**
   * Turns a stopped machine on again, on its disk and with this share of its host; without GPUs if it has none. For a kind
   * in `traits.power.move` the share may be of another host, where the disk is then copied. Until it has run there, a stop
   * leads back to the first one.
   */
  start(externalId: string, share: Share, signal: AbortSignal): Promise<StartOutcome>
  /** `count`: of all reboots so far. Reboots the machine unless it was rebooted this often already. */
  reboot(externalId: string, count: number, signal: AbortSignal): Promise<void>
  /**
   * Tells the programs of a running machine when it will be stopped, until it starts again. Absent: programs are not
   * told.
   */
  announceEnd?(externalId: string, at: Instant, signal: AbortSignal): Promise<void>
}

/** `refused`: the machine stays off. */
export type StartOutcome = { readonly kind: 'starting' } | { readonly kind: 'refused'; readonly message: string }

/** The abilities of a provider. Callers decide by these, never by the provider's name. */
export interface DriverTraits {
  /**
   * The driver's machines exist only in a simulation: they have no logs, terminal or measurements, and real machines
   * are preferred for an order.
   */
  readonly simulated: boolean
  /** The driver's inventory contains offers (`InventoryOffer`). */
  readonly elastic: boolean
  /** People log in by SSH, so an order needs a key. */
  readonly ssh: boolean
  /** `berth logs` works. */
  readonly logs: boolean
  /** Terminals and exec work without SSH. */
  readonly terminal: boolean
  /** GPUs are measured. */
  readonly metrics: boolean
  /** The driver cannot tell whether anybody uses a machine, so idle rules are refused. */
  readonly blindToUse?: true
  /** Hosts hand over the output of jobs before they remove them. */
  readonly keepsOutput?: true
  /** `relayed`: customers reach a machine through ports of this server. `direct`: at its own address. */
  readonly ports: 'direct' | 'relayed'
  /** The kinds of rentals that can be stopped and started, and those that can be rebooted. */
  readonly power: {
    readonly stop: readonly RentalKind[]
    readonly reboot: readonly RentalKind[]
    /** The kinds of rentals that can start on another machine, with their disk. Absent: none. */
    readonly move?: readonly RentalKind[]
  }
  /**
   * Which machines get weights and the image of our engines from the server: all of them, or those of some clusters.
   */
  readonly downloads?: true | { readonly clusters: readonly string[] }
  /** The machines of one cluster can be the nodes of a group, with a private network. */
  readonly groups?: true
}

export function hasDownloads(driver: Pick<Driver, 'traits'> | undefined, clusterName: string): boolean {
  const downloads = driver?.traits.downloads
  return downloads === true || downloads?.clusters.includes(clusterName) === true
}

/** Whether the provider can stop a rental of this kind and keep its disk. */
export function canStop(driver: Pick<Driver, 'power' | 'traits'> | undefined, kind: RentalKind): boolean {
  return driver?.power !== undefined && driver.traits.power.stop.includes(kind)
}

/**
 * `refused`: the provider rejected the order and created nothing. With the reason `no_capacity` (an offer that was sold
 * out, withdrawn, or costs more than the spec allows) the order goes to the next place, at the same price. `detail`: the
 * provider's own words, for the operator only. `postponed`: the provider was not called, because of its rate limit.
 */
export type CreateOutcome =
  | { readonly kind: 'created'; readonly externalId: string }
  | { readonly kind: 'refused'; readonly reason: string; readonly message: string; readonly detail?: string }
  | { readonly kind: 'postponed'; readonly message: string }

export interface DriverMachine {
  readonly externalId: string
  readonly tag: string
  /**
   * `stopping`: it is being destroyed. `stopped`: it is off, and its disk is there, or lost if there is a `failure`.
   * `unreachable`: its host has not reported since `seenAt`; the machine may still be running.
   */
  readonly state: 'starting' | 'running' | 'stopping' | 'stopped' | 'failed' | 'unreachable'
  /**
   * Reason in snake_case, for `failed`, for `stopped` without a disk, and for `unreachable` where one is known.
   * `no_capacity`: the provider accepted the order and then had no room for it. It never ran, and the order goes to the
   * next place.
   */
  readonly failure?: string
  /** The reason as a sentence, or the progress of a start. */
  readonly message?: string
  /** Exit code of a program that ended by itself; with the failure `process_exited`, 0 is success. */
  readonly exitCode?: number
  /** When it ended, where that is known. */
  readonly endedAt?: Instant
  /** Changes with every restart, where the provider knows. */
  readonly incarnation?: string
  /** Last report of its host, unless that is now. */
  readonly seenAt?: Instant
  /** The machine of the inventory that has its disk. Absent: the one that was ordered. */
  readonly machineId?: string
  /** Addresses; present once it runs. */
  readonly data?: ProviderData
  /** The provider charges us this for it. Absent: nothing. */
  readonly cost?: ProviderCost
}

/** The provider accepted the order and then had no room for it. */
export function hadNoRoom({ state, failure }: DriverMachine): boolean {
  return state === 'failed' && failure === 'no_capacity'
}

/** The price now, of the machine with all that belongs to it, and the rules by which it is billed. */
export interface ProviderCost extends BillingTerms {
  /** Name of the account that pays. */
  readonly account: string
  /** Zero: not billed now. */
  readonly perHour: NanoUsd
}

export interface BillingTerms {
  /** When the bill begins. */
  readonly from: 'create' | 'running'
  /** Started increments are billed whole. */
  readonly incrementMs: number
  /** Billed even if the machine ends earlier. */
  readonly minimumMs: number
}

export interface VolumeDriver {
  /** The kinds of rentals that can have its volumes. */
  readonly serves: readonly RentalKind[]
  /**
   * The kinds of rentals whose volumes can be attached and detached while they run; others have their volumes from the
   * start.
   */
  readonly attaches: readonly RentalKind[]
  /** Each volume is on one host or in one cluster, and only machines there can have it: one, or several that only read. */
  readonly isLocal: boolean
  /** The cluster whose machines can have it. Absent: all machines of the provider in its region can. */
  clusterOf?(externalId: string): string | undefined
  /** `own`: regions in which the provider has machines that its volumes attach to. */
  readonly regions: 'all' | 'own'
  /**
   * The largest volume that fits now, by region, net of what is already promised. `near`: on that host.
   * Absent: no known limit.
   */
  roomGb?(regions: readonly string[], signal: AbortSignal, near?: Near): Promise<ReadonlyMap<string, number>>
  /**
   * Resolves with `created` only once the data exists, since billing starts then. Resumes an unfinished volume with the
   * same tag. `near`: what it is for, if known. `copyOf`: the volume that it starts as a copy of.
   */
  create(tag: string, spec: VolumeSpec, signal: AbortSignal): Promise<VolumeOutcome>
  /** Whether `create` can copy. */
  readonly copies?: true
  /** Idempotent; resolves once it has the size. Absent: volumes cannot grow. */
  grow?(externalId: string, sizeGb: number, signal: AbortSignal): Promise<GrowOutcome>
  destroy(externalId: string, signal: AbortSignal): Promise<void>
  list(tagPrefix: string, signal: AbortSignal): Promise<DriverVolume[]>
  /** Both are idempotent. A machine whose spec has the volume already has it. */
  attach(externalId: string, machineExternalId: string, signal: AbortSignal, mount?: Mount): Promise<void>
  detach(externalId: string, machineExternalId: string, signal: AbortSignal): Promise<void>
}

/** A driver puts a volume at the host of a machine, of another volume, or at a named one. */
export type Near = { readonly machine: string } | { readonly volume: string } | { readonly host: string }

export interface VolumeSpec {
  readonly region: string
  readonly label: string
  readonly sizeGb: number
  readonly near?: Near
  readonly copyOf?: string
}

/** `refused`: it keeps its size. */
export type GrowOutcome = { readonly kind: 'grown' } | { readonly kind: 'refused'; readonly message: string }

/** A create that took longer than one call, because the provider still copies data. It is not a failure: ask again. */
export class CopyInProgress extends Error {
  constructor() {
    super('The data is being copied.')
  }
}

/** `refused`: nothing of the volume is left. */
export type VolumeOutcome =
  | { readonly kind: 'created'; readonly externalId: string; readonly vip: string }
  | { readonly kind: 'refused'; readonly reason: VolumeRefusal; readonly message: string }

export type VolumeRefusal = 'no_storage_capacity' | 'rejected_by_provider'

export interface DriverVolume {
  readonly externalId: string
  /** Absent: the provider has verified its data. false: unfinished, or its data is gone. */
  readonly ready?: false
  /** Why it is not ready, for the operator. */
  readonly message?: string
  readonly tag: string
  readonly vip: string
  readonly attachedTo: readonly string[]
  /** GB in use. Absent: not known. */
  readonly usedGb?: number
  /** The provider charges us this for it. Absent: nothing, or its account does not answer. */
  readonly cost?: ProviderCost
}

export type InventoryItem = InventoryMachine | InventoryOffer

/**
 * Capacity that an elastic provider can create: an instance type of a cloud in one region, or a node pool that scales.
 * The spec of an order names units of it as its machines (`offerOfUnit`). Its id must be the same in every report. A
 * report older than five minutes sells nothing. Rented units keep running, whatever happens to the offer.
 */
export interface InventoryOffer extends Omit<InventoryMachine, 'gpusSick' | 'supplier'> {
  /**
   * How many more units can be created now, within our quota at the provider. null: the provider does not report it.
   */
  readonly available: number | null
  /** A unit is rented with all its GPUs, like an instance type. false: also in parts, like a node of a cluster. */
  readonly soldWhole: boolean
  /** The provider's price. Orders that pay less are not sent there. null: nothing per hour. */
  readonly costUsdPerGpuHour: string | null
  /** Placement prefers a higher one before the price (default: 0). */
  readonly preference?: number
  /** Orders that pay less than it costs are sent there all the same. */
  readonly sellsBelowCost?: boolean
}

export interface InventoryMachine {
  readonly id: string
  readonly clusterName: string
  readonly region: string
  readonly offering: 'marketplace' | 'virtual-machine' | 'bare-metal'
  readonly gpuType: 'h100' | 'h200' | 'b200' | null
  readonly gpuModel: string
  readonly gpuRamMib: number
  readonly gpuFormFactor: 'sxm5' | 'sxm6' | 'pcie' | null
  readonly networkType: 'infiniband' | 'ethernet'
  readonly ethernetVariant: 'normal' | 'rocev2' | null
  readonly gpusTotal: number
  /** Indexes of unhealthy GPUs. */
  readonly gpusSick: readonly number[]
  /** Marketplace only: the initial price, until the supplier changes it. */
  readonly priceUsdPerGpuHour: string | null
  /** Supplier account that earns from it. null: the house. */
  readonly supplier: string | null
  readonly hasPersistentStorage: boolean
  readonly hardware: MachineHardware
}
