/**
 * The life cycle of a rental. The table of moves is the only definition of which state can follow which: SQL updates,
 * the reconcilers, the API and the console all use it.
 */
import { HOUR_MS, MINUTE_MS, type Instant } from '../base/instant.ts'
import type { InstanceStatus } from '../contract/marketplace.ts'
import type { RentalAction, RentalState, RentalStatus } from '../contract/rental.ts'
import type { RentalOutcome } from '../contract/rental-outcome.ts'
import type { WorkloadSpec } from './workload.ts'
import type { GpuFormFactor, GpuType, NetworkType } from '../contract/shared.ts'

export type RentalKind = 'virtual-machine' | 'bare-metal' | 'container'

/**
 * For each state, the possible next states. A failed rental loses its disk, so none in which a disk is kept becomes
 * Failed, whatever an engine shows: a start that does not succeed leads back through Stopping, and only its customer or
 * an empty balance ends a stopped one. Stopped → Stopping: the engine runs it although it should not.
 */
export const rentalMoves = {
  Pending: ['Running', 'Failed', 'Terminating'],
  Running: ['Unknown', 'Stopping', 'Failed', 'Terminating'],
  Unknown: ['Running', 'Stopping', 'Failed', 'Terminating'],
  Stopping: ['Stopped', 'Terminating'],
  Stopped: ['Starting', 'Stopping', 'Terminating'],
  Starting: ['Running', 'Stopping', 'Terminating'],
  Failed: ['Terminating'],
  Terminating: ['Terminated'],
  Terminated: [],
} as const satisfies Record<RentalState, readonly RentalState[]>

export function mayMove(from: RentalState, to: RentalState): boolean {
  const next: readonly RentalState[] = rentalMoves[from]
  return next.includes(to)
}

/** For `update … where status = any($from)`. */
export function statesBefore(to: RentalState): RentalState[] {
  return (Object.keys(rentalMoves) as RentalState[]).filter((from) => mayMove(from, to))
}

/**
 * Time limits of states. An engine can allow longer starts (`Driver.startLimitMs`). `fail`: it becomes Failed. `stop`: it goes back to Stopped. `flag`: it is shown as stuck until
 * it changes by itself.
 */
export const stateLimits = {
  Pending: { ms: 30 * MINUTE_MS, past: 'fail', reason: 'start_timed_out' },
  Unknown: { ms: HOUR_MS, past: 'fail', reason: 'machine_lost' },
  Starting: { ms: 30 * MINUTE_MS, past: 'stop', reason: 'start_timed_out' },
  Stopping: { ms: 15 * MINUTE_MS, past: 'flag', reason: 'stop_stuck' },
  Failed: { ms: 15 * MINUTE_MS, past: 'flag', reason: 'teardown_stuck' },
  Terminating: { ms: 15 * MINUTE_MS, past: 'flag', reason: 'teardown_stuck' },
} as const satisfies Partial<Record<RentalState, { ms: number; past: 'fail' | 'stop' | 'flag'; reason: RentalOutcome }>>

/** Instead of the limit of Starting, while its disk is copied to another machine. */
export const moveLimitMs = 6 * HOUR_MS

/** States in which a rental can be changed and ended. All but Stopped count against the account's quota of GPUs. */
export const livingStates = [
  'Pending',
  'Running',
  'Unknown',
  'Stopping',
  'Stopped',
  'Starting',
] as const satisfies readonly RentalState[]

export function isLiving(status: RentalState): boolean {
  return (livingStates as readonly RentalState[]).includes(status)
}

/**
 * States in which the disk is kept, and paid for apart from the machine. While its engine does not show the disk,
 * `missing_since` is set, and nothing is charged after `seen_at`.
 */
export function keepsDisk(status: RentalState): boolean {
  return status === 'Stopping' || status === 'Stopped' || status === 'Starting'
}

/**
 * Why a machine may stop by itself and keep its disk. Its rental is Stopped instead of Failed where the engine can start
 * it again.
 */
export const ownStops = ['disk_share_exceeded', 'powered_off', 'crashed'] as const satisfies readonly RentalOutcome[]

/** What an engine can do with a rental, beyond ending it. */
export interface Powers {
  readonly stop: boolean
  readonly reboot: boolean
}

/** The operations that the state and the engine allow. */
export function actionsOf(status: RentalState, powers: Powers): RentalAction[] {
  const may: Record<RentalAction, boolean> = {
    stop: powers.stop && (status === 'Running' || status === 'Starting'),
    start: powers.stop && status === 'Stopped',
    reboot: powers.reboot && status === 'Running',
    terminate: isLiving(status) || status === 'Failed',
  }
  return (Object.keys(may) as RentalAction[]).filter((action) => may[action])
}

/** The state in the words of the interface. */
export function wireStatus(status: RentalState): RentalStatus {
  if (status === 'Starting' || status === 'Stopped') return 'Pending'
  return status === 'Stopping' ? 'Running' : status
}

/** The marketplace status of a state: `creating` before the request to the engine, `starting` after it. */
export function instanceStatus(status: RentalState, createRequestedAt: Instant | null): InstanceStatus {
  switch (status) {
    case 'Pending':
      return createRequestedAt === null ? 'creating' : 'starting'
    case 'Starting':
      return 'starting'
    case 'Stopping':
      return 'stopping'
    case 'Stopped':
      return 'stopped'
    case 'Running':
      return 'online'
    case 'Unknown':
      return 'unknown'
    case 'Failed':
      return 'failed'
    case 'Terminating':
      return 'stopping'
    case 'Terminated':
      return 'terminated'
  }
}

export interface NodeClaim {
  readonly machineId: string
  readonly gpuIndexes: readonly number[]
}

/** The request to an engine. Stored once, with the intent, so that a retry sends exactly the same. */
export interface EngineSpec {
  readonly kind: RentalKind
  readonly name: string
  readonly label: string | null
  readonly region: string
  readonly clusterName: string
  readonly gpuType: GpuType | null
  readonly gpuModel: string
  readonly gpuFormFactor: GpuFormFactor | null
  readonly gpuCount: number
  readonly networkType: NetworkType
  readonly nodes: readonly NodeClaim[]
  /** The machine that has its disk while it starts on another one. */
  readonly movesFrom?: NodeClaim & { readonly clusterName: string }
  /** Of one node. */
  readonly resources: { cpuModel: string; cpuCount: number; ramGb: number; storageGb: number }
  readonly sshKeys: readonly string[]
  readonly ports: readonly number[]
  readonly image: { name: string; tag: string | null } | null
  readonly cudaVersion: string | null
  readonly monitoringEnabled: boolean
  /** Absent: none of the options, as in older rows. */
  readonly workload?: WorkloadSpec
  /** Volumes that the machine has from the start, by their id at the engine. Added when the engine is called. */
  readonly disks?: ReadonlyArray<Mount & { readonly volumeId: string }>
  /** For units of an offer: an engine whose price has risen since rejects it with `no_capacity`. */
  readonly maxCostUsdPerGpuHour?: string
  /** The operator's account at another cloud that the order must go to. Absent: any place. */
  readonly providerAccount?: string
}

/** The part of its host that a machine has. */
export type Share = Pick<EngineSpec, 'nodes' | 'resources'>

/** A rental without its GPUs has enough to fetch files, and little enough for its neighbors. */
const CPUS_WITHOUT_GPUS = 2
const RAM_GB_WITHOUT_GPUS = 4

/** The share of a rental that runs without its GPUs: they may be rented to others, with most of its CPUs and memory. */
export function shareWithoutGpus({ nodes, resources }: Share): Share {
  return {
    nodes: nodes.map(({ machineId }) => ({ machineId, gpuIndexes: [] })),
    resources: {
      ...resources,
      cpuCount: Math.min(resources.cpuCount, CPUS_WITHOUT_GPUS),
      ramGb: Math.min(resources.ramGb, RAM_GB_WITHOUT_GPUS),
    },
  }
}

/** How a machine has a volume. */
export interface Mount {
  /** null: the engine decides, or it is a bare disk. */
  readonly path: string | null
  readonly readOnly: boolean
}

/** The total size of all nodes; `resources` is for one. */
export function wholeOf(spec: Pick<EngineSpec, 'resources' | 'nodes'>): EngineSpec['resources'] {
  const nodes = Math.max(1, spec.nodes.length)
  const { cpuModel, cpuCount, ramGb, storageGb } = spec.resources
  return { cpuModel, cpuCount: nodes * cpuCount, ramGb: nodes * ramGb, storageGb: nodes * storageGb }
}

/** The tag on everything we create at an engine. Anything tagged that is not in the database can be removed. */
export function tagOf(installationId: string, noun: 'rental' | 'volume', row: { id: number; nonce: string }): string {
  return `${tagPrefix(installationId)}${noun === 'rental' ? '' : 'v'}${row.id}-${row.nonce}`
}

export function tagPrefix(installationId: string): string {
  return `berth-${installationId}-`
}

/** The ID in a tag. The caller must compare the tag with that row's tag. */
export function idOfTag(installationId: string, noun: 'rental' | 'volume', tag: string): number | undefined {
  const prefix = `${tagPrefix(installationId)}${noun === 'rental' ? '' : 'v'}`
  const match = tag.startsWith(prefix) ? /^(\d{1,10})-[0-9a-f]+$/.exec(tag.slice(prefix.length)) : null
  return match?.[1] === undefined ? undefined : Number.parseInt(match[1], 10)
}
