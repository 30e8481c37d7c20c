/**
 * The port to what runs machines. It is small on purpose: create, list, destroy. A driver never keeps state that we
 * need; everything we rely on is what `list` shows. `driverConformance` (conformance.ts) is the suite each one passes.
 *
 * The three rules that make crashes harmless:
 * - a thrown error from `create` or `destroy` means that the outcome is unknown, and only `list` tells it;
 * - a thrown error from `list` is an error, never an empty list;
 * - a machine is gone when `list` no longer shows it (after `listLagMs` since it was asked for).
 */
import type { Instant } from '../base/instant.ts'
import type { ProviderData, ProviderId } from '../contract/provider-data.ts'
import type { MachineHardware } from '../domain/machine.ts'
import type { EngineSpec } from '../domain/rental.ts'

export interface Driver {
  readonly id: ProviderId
  readonly traits: DriverTraits
  /** How long after a create the list may not show it yet. */
  readonly listLagMs: number
  /** How long one call may take before its outcome counts as unknown. */
  readonly callTimeoutMs: number

  /** Throws, with a sentence, when the engine cannot be reached. */
  check(signal: AbortSignal): Promise<void>
  /** Everything the engine could rent out now. An elastic engine has offers, others have machines; both is fine. */
  inventory(signal: AbortSignal): Promise<InventoryItem[]>
  create(tag: string, spec: EngineSpec, signal: AbortSignal): Promise<CreateOutcome>
  /** Asks for the end. Succeeds for a machine that is gone already. */
  destroy(externalId: string, signal: AbortSignal): Promise<void>
  /** Everything whose tag begins with the prefix. */
  list(tagPrefix: string, signal: AbortSignal): Promise<EngineMachine[]>
  /** Present where the engine can hold volumes. */
  readonly volumes?: VolumeEngine
}

/** What an engine can do. Everything above the port decides by these, never by the engine's name. */
export interface DriverTraits {
  /** Nothing it runs exists: no logs, no terminal, no measurements, and real machines are preferred for an order. */
  readonly simulated: boolean
  /** Its inventory has offers (`InventoryOffer`). */
  readonly elastic: boolean
  /** People log in by SSH, so an order needs a key. */
  readonly ssh: boolean
  /** `berth logs` works. */
  readonly logs: boolean
  /** Terminals and exec work without SSH. */
  readonly terminal: boolean
  /** GPUs are measured. */
  readonly metrics: boolean
  /** `relayed`: customers reach a machine through ports of this server. `direct`: at its own address. */
  readonly ports: 'direct' | 'relayed'
}

/**
 * `refused`: the engine said no, and nothing was made. With the reason `no_capacity` the order goes to the next place, at
 * the price that its customer pays already: an offer that was sold out, withdrawn, or costs more than the spec allows.
 */
export type CreateOutcome =
  | { readonly kind: 'created'; readonly externalId: string }
  | { readonly kind: 'refused'; readonly reason: string; readonly message: string }

export interface EngineMachine {
  readonly externalId: string
  readonly tag: string
  /** `unreachable`: it was there, and the host it is on has been silent since `seenAt`. It may run on, or not. */
  readonly state: 'starting' | 'running' | 'stopping' | 'failed' | 'unreachable'
  /** Why it failed, in a snake_case word. */
  readonly failure?: string
  /** The same for people, or what it is doing while it starts. */
  readonly message?: string
  /** Of this run of it, where the engine knows: another word after it stood still and was started again. */
  readonly incarnation?: string
  /** When its host was last heard, where that is not now. */
  readonly seenAt?: Instant
  /** Where to reach it; present once it runs. */
  readonly data?: ProviderData
}

export interface VolumeEngine {
  /** The kind of rental that its volumes attach to. */
  readonly serves: 'bare-metal' | 'virtual-machine'
  /** `own`: where the engine has machines of the kind that its volumes serve. */
  readonly regions: 'all' | 'own'
  /**
   * Of these regions, how large a volume there is room for now, less everything that was promised before. `near`: for a
   * volume of that machine. Absent: the engine knows no limit.
   */
  roomGb?(regions: readonly string[], signal: AbortSignal, near?: string): Promise<ReadonlyMap<string, number>>
  /**
   * Resolves with `created` only after the data is there: from then on the customer pays. Under a tag whose volume is
   * not `ready` it goes on with that one. `near`: the machine that it will be attached to, where one is known.
   */
  create(
    tag: string,
    spec: { region: string; label: string; sizeGb: number; near?: string },
    signal: AbortSignal,
  ): Promise<VolumeOutcome>
  destroy(externalId: string, signal: AbortSignal): Promise<void>
  list(tagPrefix: string, signal: AbortSignal): Promise<EngineVolume[]>
  /** Both are idempotent: asking for what is already so succeeds. */
  attach(externalId: string, machineExternalId: string, signal: AbortSignal): Promise<void>
  detach(externalId: string, machineExternalId: string, signal: AbortSignal): Promise<void>
}

/** `refused`: the engine has said no, and nothing of the volume is left. */
export type VolumeOutcome =
  | { readonly kind: 'created'; readonly externalId: string; readonly vip: string }
  | { readonly kind: 'refused'; readonly reason: VolumeRefusal; readonly message: string }

export type VolumeRefusal = 'no_storage_capacity' | 'refused_by_engine'

export interface EngineVolume {
  readonly externalId: string
  /** Absent: its data is there, the engine has looked. false: it is not made yet, or its data is gone. */
  readonly ready?: false
  /** Why it is not ready, for the operator. */
  readonly message?: string
  readonly tag: string
  readonly vip: string
  readonly attachedTo: readonly string[]
}

export type InventoryItem = InventoryMachine | InventoryOffer

/**
 * Something that an elastic engine could make: an instance type of a cloud in one region, a node pool that scales. The
 * spec of an order names units of it as its machines (`offerOfUnit`). Its id must stay the same from report to report.
 * A report that is five minutes old sells nothing. What is rented runs on, whatever becomes of the offer.
 */
export interface InventoryOffer extends Omit<InventoryMachine, 'gpusSick' | 'supplier'> {
  /** How many more units could be made now, within our quota at the engine. null: the engine does not say. */
  readonly available: number | null
  /** A unit is rented with all its GPUs, as instance types are. false: in parts too, as nodes of a cluster are. */
  readonly soldWhole: boolean
  /** What the engine charges for it. Orders that pay less do not go there. null: nothing by the hour. */
  readonly costUsdPerGpuHour: string | null
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
  /** Indexes of GPUs that are not fit to be sold. */
  readonly gpusSick: readonly number[]
  /** Marketplace: what it costs until its supplier says otherwise. Else null. */
  readonly priceUsdPerGpuHour: string | null
  /** A name under which the engine groups its suppliers; the server maps it to a supplier account. null: the house. */
  readonly supplier: string | null
  readonly hasPersistentStorage: boolean
  readonly hardware: MachineHardware
}
