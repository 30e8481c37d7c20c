/** Decisions that follow from the state of a rental (contract/rental-state.ts), and a driver's part in them. */
import { HOUR_MS, type Instant } from '../base/instant.ts'
import type { RentalOutcome } from '../contract/rental-outcome.ts'
import {
  rentalStateTable,
  statesWhere,
  type InstanceStatus,
  type RentalAction,
  type RentalState,
  type RentalStatus,
} from '../contract/rental-state.ts'
import type { WorkloadSpec } from './workload.ts'
import type { GpuFormFactor, GpuType, NetworkType } from '../contract/shared.ts'

export type RentalKind = 'virtual-machine' | 'bare-metal' | 'container'

export function mayMove(from: RentalState, to: RentalState): boolean {
  return rentalStateTable[from].next.includes(to)
}

/** For `update … where status = any($from)`. */
export function statesBefore(to: RentalState): RentalState[] {
  return statesWhere(({ next }) => next.includes(to))
}

/** Replaces the time limit of Starting while the disk of a rental is copied to another machine. */
export const moveLimitMs = 6 * HOUR_MS

/** Whether a rental can be changed and ended. */
export function isLiving(status: RentalState): boolean {
  return rentalStateTable[status].goal !== 'gone'
}

/** Whether a rental runs, or will without a further request. */
export function isMeantToRun(status: RentalState): boolean {
  return rentalStateTable[status].goal === 'on'
}

/** Whether the provider was asked to bring the machine up, for the first time or again. */
export function isComingUp(status: RentalState): boolean {
  const { goal, driverCall } = rentalStateTable[status]
  return goal === 'on' && driverCall !== null
}

export function isReachable(status: RentalState): boolean {
  return rentalStateTable[status].reachable
}

/**
 * Whether the disk outlives the machine's run. While the provider does not show the disk, `missing_since` is set and
 * nothing is charged after `seen_at`.
 */
export function keepsDisk(status: RentalState): boolean {
  return rentalStateTable[status].keepsDisk
}

/**
 * Whether the provider does not show the rental now, so that it is not charged past `seen_at`. A row without a status
 * is a volume.
 */
export function isUnseen(row: { status: RentalState | null; missing_since: Instant | null }): boolean {
  if (row.status === null) return false
  return rentalStateTable[row.status].billing === 'paused' || (keepsDisk(row.status) && row.missing_since !== null)
}

/**
 * Why a machine may stop by itself and keep its disk. Its rental is Stopped instead of Failed where the provider can
 * start it again.
 */
export const ownStops = ['disk_share_exceeded', 'powered_off', 'crashed'] as const satisfies readonly RentalOutcome[]

/** The actions on a rental that a driver supports, beyond ending it. */
export interface Powers {
  readonly stop: boolean
  readonly reboot: boolean
}

/** The operations that the state and the provider allow. */
export function actionsOf(status: RentalState, powers: Powers): RentalAction[] {
  const can: Record<RentalAction, boolean> = { ...powers, start: powers.stop, terminate: true }
  return rentalStateTable[status].actions.filter((action) => can[action])
}

/** The state in the words of the interface. */
export function wireStatus(status: RentalState): RentalStatus {
  return rentalStateTable[status].status
}

/** The state in the words of the marketplace. */
export function instanceStatus(status: RentalState, createRequestedAt: Instant | null): InstanceStatus {
  const { driverCall, instanceStatus: word } = rentalStateTable[status]
  return driverCall === 'create' && createRequestedAt === null ? 'creating' : word
}

export interface NodeClaim {
  readonly machineId: string
  readonly gpuIndexes: readonly number[]
}

/** The request to a provider. It is stored once, with the intent, so that a retry sends exactly the same. */
export interface RentalSpec {
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
  /** The machine that has the disk while the rental starts on another one. */
  readonly movesFrom?: NodeClaim & { readonly clusterName: string }
  /** The resources of each node. */
  readonly resources: { cpuModel: string; cpuCount: number; ramGb: number; storageGb: number }
  readonly sshKeys: readonly string[]
  readonly ports: readonly number[]
  readonly image: { name: string; tag: string | null } | null
  readonly cudaVersion: string | null
  readonly monitoringEnabled: boolean
  /** Absent in older rows, which have none of the options. */
  readonly workload?: WorkloadSpec
  /** Volumes that the machine has from the start, by their id at the provider. Added when the provider is called. */
  readonly disks?: ReadonlyArray<Mount & { readonly volumeId: string }>
  /** For units of an offer: a provider whose price has risen since rejects it with `no_capacity`. */
  readonly maxCostUsdPerGpuHour?: string
  /** The operator's account at another cloud that the order must go to. Absent: any place. */
  readonly providerAccount?: string
  /** Absent: it is no node of a group. */
  readonly group?: GroupPlace
  /** Whether programs are told of an interruption by a file. */
  readonly interruptible?: true
}

/** The place of a rental in its group. */
export interface GroupPlace {
  readonly id: string
  readonly name: string
  /** Determines the addresses of the private network. */
  readonly number: number
  readonly rank: number
  readonly nodes: number
  /** The addresses of the hosts by rank, and the size of a packet between containers. Absent: its provider needs none. */
  readonly network?: { readonly hosts: readonly string[]; readonly mtu: number }
}

/** A machine's share of its host. */
export type Share = Pick<RentalSpec, 'nodes' | 'resources'>

/** The resources of a rental that runs without its GPUs: enough to fetch files, and little for its neighbors. */
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
  /** null: the provider decides, or it is a bare disk. */
  readonly path: string | null
  readonly readOnly: boolean
}

/** The total size of all nodes; `resources` is for one. */
export function wholeOf(spec: Pick<RentalSpec, 'resources' | 'nodes'>): RentalSpec['resources'] {
  const nodes = Math.max(1, spec.nodes.length)
  const { cpuModel, cpuCount, ramGb, storageGb } = spec.resources
  return { cpuModel, cpuCount: nodes * cpuCount, ramGb: nodes * ramGb, storageGb: nodes * storageGb }
}

/** The tag on everything we create at a provider. Anything tagged that is not in the database can be removed. */
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
