/**
 * The life cycle of a rental. The table of moves is the only definition of which state can follow which: SQL updates,
 * the reconcilers, the API and the console all use it.
 */
import { HOUR_MS, MINUTE_MS, type Instant } from '../base/instant.ts'
import type { InstanceStatus } from '../contract/marketplace.ts'
import type { RentalStatus } from '../contract/rental.ts'
import type { RentalOutcome } from '../contract/rental-outcome.ts'
import type { WorkloadSpec } from './workload.ts'
import type { GpuFormFactor, GpuType, NetworkType } from '../contract/shared.ts'

export type RentalKind = 'virtual-machine' | 'bare-metal' | 'container'

/** For each state, the possible next states. */
export const rentalMoves = {
  Pending: ['Running', 'Failed', 'Terminating'],
  Running: ['Unknown', 'Failed', 'Terminating'],
  Unknown: ['Running', 'Failed', 'Terminating'],
  Failed: ['Terminating'],
  Terminating: ['Terminated'],
  Terminated: [],
} as const satisfies Record<RentalStatus, readonly RentalStatus[]>

export function mayMove(from: RentalStatus, to: RentalStatus): boolean {
  const next: readonly RentalStatus[] = rentalMoves[from]
  return next.includes(to)
}

/** For `update … where status = any($from)`. */
export function statesBefore(to: RentalStatus): RentalStatus[] {
  return (Object.keys(rentalMoves) as RentalStatus[]).filter((from) => mayMove(from, to))
}

/** Time limits of states. `fail`: it becomes Failed. `flag`: it is shown as stuck until it changes by itself. */
export const stateLimits = {
  Pending: { ms: 30 * MINUTE_MS, past: 'fail', reason: 'start_timed_out' },
  Unknown: { ms: HOUR_MS, past: 'fail', reason: 'machine_lost' },
  Failed: { ms: 15 * MINUTE_MS, past: 'flag', reason: 'teardown_stuck' },
  Terminating: { ms: 15 * MINUTE_MS, past: 'flag', reason: 'teardown_stuck' },
} as const satisfies Partial<Record<RentalStatus, { ms: number; past: 'fail' | 'flag'; reason: RentalOutcome }>>

/** States in which a rental still counts against the account's quota and can be ended. */
export const livingStates = ['Pending', 'Running', 'Unknown'] as const satisfies readonly RentalStatus[]

export function isLiving(status: RentalStatus): boolean {
  return (livingStates as readonly RentalStatus[]).includes(status)
}

/** The marketplace status of a state: `creating` before the request to the engine, `starting` after it. */
export function instanceStatus(status: RentalStatus, createRequestedAt: Instant | null): InstanceStatus {
  switch (status) {
    case 'Pending':
      return createRequestedAt === null ? 'creating' : 'starting'
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
  /** Of one node. */
  readonly resources: { cpuModel: string; cpuCount: number; ramGb: number; storageGb: number }
  readonly sshKeys: readonly string[]
  readonly ports: readonly number[]
  readonly image: { name: string; tag: string | null } | null
  readonly cudaVersion: string | null
  readonly monitoringEnabled: boolean
  /** Absent: none of the options, as in older rows. */
  readonly workload?: WorkloadSpec
  /** For units of an offer: an engine whose price has risen since rejects it with `no_capacity`. */
  readonly maxCostUsdPerGpuHour?: string
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
