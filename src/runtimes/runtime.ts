/**
 * The port to the runtime of one host: Docker, QEMU, or the host itself over SSH. A `Keeper` (keeper.ts) drives it. As
 * with drivers, only `list` tells the state.
 */
import type { Duplex, Readable } from 'node:stream'
import type { HostVolumeStatus, HostFault, StreamRequest, DesiredVolume, Workload } from '../contract/agent.ts'
import type { RentalOutcome } from '../contract/rental-outcome.ts'
import type { RentalKind } from '../domain/rental.ts'

export interface Runtime {
  readonly kind: RentalKind
  /** A missing workload may have left traces: it is gone only after a successful `stop`. */
  readonly leavesTraces?: true
  /** All tagged workloads on this host, including partly created ones. An error is never an empty list. */
  list(signal: AbortSignal): Promise<WorkloadStatus[]>
  /**
   * Creates and starts a workload, resumes an interrupted start, or restarts one that ended. Does not touch disks.
   * Throws `NeverStarts` when a retry cannot help; other errors are retried.
   */
  start(workload: Workload, progress: (message: string) => void, signal: AbortSignal): Promise<void>
  /** Stops it and removes all its traces. Succeeds if it is already gone. */
  stop(id: string, signal: AbortSignal): Promise<void>
  /**
   * Turns a workload off and keeps its disk: afterwards it is `ended`, even if it went off by itself. Absent: it cannot
   * be turned off.
   */
  halt?(id: string, signal: AbortSignal): Promise<void>
  /**
   * Reboots a workload. `workload.reboots` is stored first (`WorkloadStatus.reboots`), so a crash can lose a reboot but
   * not repeat it. Absent: it cannot be rebooted.
   */
  reboot?(workload: Workload, signal: AbortSignal): Promise<void>
  /**
   * Attaches and detaches disks until they match `workload.disks`. Absent: a workload has the disks it was created
   * with.
   */
  setDisks?(workload: Workload, signal: AbortSignal): Promise<void>
  /** Joins the network of its group, and starts its program once the group is open. Absent: it has no groups. */
  joinGroup?(workload: Workload, signal: AbortSignal): Promise<void>
  /**
   * Finds the output of a job that is about to be removed. What it returns ends the program first, and then opens its files
   * as a tar, which is empty where there are none. undefined: it is no job. Absent: it runs no jobs.
   */
  output?(id: string, signal: AbortSignal): Promise<(() => Promise<Readable>) | undefined>
  /** Tells the programs of a running workload when it will be interrupted (`workload.endsAt`). Absent: they are not told. */
  announceEnd?(workload: Workload, signal: AbortSignal): Promise<void>
  readonly volumes?: RuntimeVolumes
  /** Opens a stream into a running workload. The message of an error is for the person at the other end. */
  open(request: StreamRequest, signal: AbortSignal): Promise<RuntimeStream>
  /** Measures every running workload that can be measured now. Absent: the runtime measures nothing. */
  measure?(signal: AbortSignal): Promise<Measured[]>
  /** Calls back when something may have changed. Returns the unsubscribe function. */
  watch?(changed: () => void): () => void
  /** Returns notes for the supplier and the operator about this runtime on this host. */
  notes(): readonly string[]
  /** Says whether the disk size of a workload is enforced or only watched. Absent or undefined: not known yet. */
  diskLimit?(): 'enforced' | 'watched' | undefined
  /** Returns why this host accepts no tenants now. Absent or undefined: it accepts them. */
  fault?(): HostFault | undefined
}

/** Volumes that are files on the host. */
export interface RuntimeVolumes {
  list(signal: AbortSignal): Promise<HostVolumeStatus[]>
  /** All calls are idempotent. */
  create(volume: DesiredVolume, signal: AbortSignal): Promise<void>
  /** Grows a volume to its size, even while it is in use. */
  grow(volume: DesiredVolume, signal: AbortSignal): Promise<void>
  destroy(id: string, signal: AbortSignal): Promise<void>
}

export interface WorkloadStatus {
  readonly id: string
  readonly tag: string
  /**
   * `ended`: off because the host or its engine restarted, because it was halted, or in the middle of a start; can be
   * started again. `failed`: it ended by itself, or cannot run. No step of the runtime's own work is `failed`, since the
   * server gives up what has failed, with its disk (conformance-disk.ts).
   */
  readonly state: 'starting' | 'running' | 'ended' | 'failed'
  readonly failure?: string
  readonly message?: string
  /** Exit code of a program that ended by itself. */
  readonly exitCode?: number | undefined
  /** When that was, in milliseconds since 1970 by the clock of the host. */
  readonly endedAt?: number | undefined
  /** An ended workload is not started again before this time has passed. */
  readonly waitMs?: number
  readonly sshUser?: string
  /** Changes with every restart. Absent: restarts make no difference. */
  readonly incarnation?: string
  /** The number of reboots. Absent: none. */
  readonly reboots?: number
  /** The interruption that its programs know of, in milliseconds since 1970. Absent: none. */
  readonly endsAt?: number
  readonly disks: readonly string[]
  /**
   * Present while its program waits for its group. `links`: measured so far; undefined: it has not joined the network.
   */
  readonly group?: { readonly links: ReadonlyArray<{ rank: number; mbps: number }> | undefined }
}

/** Totals since the start of the workload, from which the reader derives rates. null: unknown. */
export interface Measured {
  readonly id: string
  readonly cpuSeconds: number | null
  /** The number of CPUs that the workload may use. */
  readonly cpus: number
  readonly memoryUsedMib: number | null
  readonly memoryTotalMib: number | null
  readonly diskUsedMib: number | null
  readonly networkRxBytes: number | null
  readonly networkTxBytes: number | null
  /** A program runs beside its main one: a shell, a command, a start script. */
  readonly hasProgram: boolean
}

/**
 * A stream of bytes with signals beside them: `{ columns, rows }` to a terminal, `{ exitCode }` from it or from a
 * command.
 */
export interface RuntimeStream {
  readonly stream: Duplex
  signal?(value: unknown): void
  onSignal?(listener: (value: unknown) => void): void
}

/**
 * An error whose message is a sentence for the customer. Other errors name paths and daemons: they stay in the log of
 * the host.
 */
export class CustomerError extends Error {}

/** The workload cannot start, and a retry cannot help: no such image, no such device. */
export class NeverStarts extends CustomerError {
  readonly reason: RentalOutcome
  constructor(reason: RentalOutcome, message: string) {
    super(message)
    this.reason = reason
  }
}
