/**
 * Keeps GPUs from the next tenant until their memory is proven free. A machine that has ended is reported as `stopping`
 * until a reading from after its end shows no memory in use on its GPUs, so the server keeps them claimed. A GPU that no
 * machine has and whose memory is in use is not offered.
 */
import type { Desired, HostReport, Workload } from '../contract/agent.ts'
import { heldGpus, isMemoryHeld } from '../domain/gpu-memory.ts'
import type { GpuReading } from './gpu-listing.ts'
import type { GpuSnapshot } from './gpu-source.ts'

type Observation = HostReport['workloads'][number]

/** A workload that the server wants gone and that the runtime no longer has. */
interface Ended {
  readonly workload: Workload
  /** Readings that began before prove nothing. */
  readonly since: number
}

export class GpuRelease {
  readonly #now: () => number
  #ended = new Map<string, Ended>()
  #readings: readonly GpuReading[] = []
  /** When the reading began. */
  #readAt = -Infinity

  constructor(now: () => number) {
    this.#now = now
  }

  /** A machine has ended, and its GPUs are not proven free. */
  get isWaiting(): boolean {
    return [...this.#ended.values()].some((one) => this.#heldMemory(one) !== undefined)
  }

  /** The server has not yet seen that a machine ended. */
  get hasEnded(): boolean {
    return this.#ended.size > 0
  }

  read({ gpus }: GpuSnapshot, startedAt: number): void {
    this.#readings = gpus
    this.#readAt = startedAt
  }

  /** `observed`: what the runtime has. Returns what is reported beside it. */
  pending(desired: Desired | undefined, observed: readonly Observation[]): Observation[] {
    const present = new Set(observed.map(({ id }) => id))
    const ended = (desired?.workloads ?? []).filter(({ id, want }) => want === 'gone' && !present.has(id))
    this.#ended = new Map(
      ended.map((workload) => [workload.id, this.#ended.get(workload.id) ?? { workload, since: this.#now() }]),
    )
    return [...this.#ended.values()].flatMap((one) => {
      const message = this.#heldMemory(one)
      const { id, tag } = one.workload
      return message === undefined ? [] : [{ id, tag, state: 'stopping', message, disks: [] }]
    })
  }

  /** Describes the memory that is still in use. undefined: the GPUs are free. */
  #heldMemory({ workload, since }: Ended): string | undefined {
    const gpus = workload.node.gpuIndexes.map((index) => ({ index, used: this.#usedMib(index) }))
    const gpu = gpus.find(({ used }) => isMemoryHeld(used))
    if (gpu !== undefined) return heldText(gpu.index, gpu.used)
    const isMeasured = gpus.some(({ used }) => used !== null)
    return isMeasured && this.#readAt < since ? 'checking that its GPU memory is free' : undefined
  }

  #usedMib(index: number): number | null {
    return this.#readings[index]?.use.memoryUsedMib ?? null
  }
}

export function occupiedGpus({ workloads }: Desired): ReadonlySet<number> {
  return new Set(workloads.flatMap(({ node }) => node.gpuIndexes))
}

/** The snapshot with GPUs that something else uses counted as unhealthy. */
export function withoutHeld(snapshot: GpuSnapshot, desired: Desired | undefined): GpuSnapshot {
  // Without the desired state, nobody knows which GPUs have tenants.
  if (desired === undefined) return snapshot
  const occupied = occupiedGpus(desired)
  const textByGpu = new Map(
    heldGpus(
      snapshot.gpus.map(({ use }) => use.memoryUsedMib),
      occupied,
    ).map((index) => [index, heldText(index, snapshot.gpus[index]?.use.memoryUsedMib ?? null)]),
  )
  if (textByGpu.size === 0) return snapshot
  return {
    ...snapshot,
    gpus: snapshot.gpus.map((one, index) => {
      const problem = textByGpu.get(index)
      return problem === undefined ? one : { ...one, problems: [...one.problems, problem] }
    }),
    notes: [...snapshot.notes, ...[...textByGpu.values()].map((text) => `Not offered until it is free: ${text}.`)],
  }
}

function heldText(index: number, usedMib: number | null): string {
  return `${Math.round(usedMib ?? 0)} MiB of GPU ${index} are in use, and no machine has it`
}
