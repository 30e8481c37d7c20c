/**
 * The port to what runs things on one host: Docker, QEMU, or the host itself over SSH. It is driven by a `Keeper`
 * (keeper.ts), which knows what is wanted; a runtime only knows how. As with drivers, what counts is what `list` shows.
 */
import type { Duplex } from 'node:stream'
import type { HostFault, StreamRequest, WantedVolume, Workload } from '../contract/agent.ts'
import type { RentalKind } from '../domain/rental.ts'

export interface Runtime {
  readonly kind: RentalKind
  /** What is missing may have left things behind: it is gone only after a `stop` that succeeded. */
  readonly leavesTraces?: true
  /** Everything on this host that carries a tag of ours, half made things too. An error is never an empty list. */
  list(signal: AbortSignal): Promise<Found[]>
  /**
   * Makes it and starts it, goes on where an earlier try broke off, or starts again what has ended. Disks are not its
   * business. Throws `NeverStarts` when trying again is no use; any other error is tried again.
   */
  start(workload: Workload, progress: (message: string) => void, signal: AbortSignal): Promise<void>
  /** Ends it and removes everything of it. Succeeds for what is gone already. */
  stop(id: string, signal: AbortSignal): Promise<void>
  /** Makes the disks of a running one those of `workload.disks`. Absent: it has none to offer. */
  setDisks?(workload: Workload, signal: AbortSignal): Promise<void>
  readonly volumes?: RuntimeVolumes
  /** A stream into a running one. Throws with a sentence for the person at the other end. */
  open(request: StreamRequest, signal: AbortSignal): Promise<RuntimeStream>
  /** Calls back when something may have changed, so that nobody has to ask all the time. Returns how to stop. */
  watch?(changed: () => void): () => void
  /** What a person should know of this engine on this host. */
  notes(): readonly string[]
  /** Why this host takes no tenants at the moment. Absent, or undefined: it takes them. */
  fault?(): HostFault | undefined
}

/** Volumes that are files on the host. */
export interface RuntimeVolumes {
  list(signal: AbortSignal): Promise<string[]>
  /** Both are idempotent. */
  create(volume: WantedVolume, signal: AbortSignal): Promise<void>
  destroy(id: string, signal: AbortSignal): Promise<void>
}

export interface Found {
  readonly id: string
  readonly tag: string
  /**
   * `ended`: it stands still and could be started again, since it ended while nobody looked: the host or its engine was
   * restarted. `failed`: it ended by itself, or cannot run.
   */
  readonly state: 'starting' | 'running' | 'ended' | 'failed'
  readonly failure?: string
  readonly message?: string
  readonly sshUser?: string
  /** Of this run of it: another word after it stood still and was started again. Absent: that makes no difference. */
  readonly incarnation?: string
  readonly disks: readonly string[]
}

/** Bytes, and signals beside them: `{ columns, rows }` to a terminal, `{ exitCode }` from it. */
export interface RuntimeStream {
  readonly stream: Duplex
  signal?(value: unknown): void
  onSignal?(listener: (value: unknown) => void): void
}

/** The message is a sentence for the customer. Other errors name paths and daemons: they stay in the log of the host. */
export class CustomerError extends Error {}

/** It cannot start, and a retry cannot help: no such image, no such device. */
export class NeverStarts extends CustomerError {
  /** In snake_case. */
  readonly reason: string
  constructor(reason: string, message: string) {
    super(message)
    this.reason = reason
  }
}
