/**
 * The order in which machines are tried for a replica: cheapest first, then spread, then those that have served the
 * deployment, because they are likely to have its image and weights. One that failed lately counts as more expensive.
 */
import { addMs, MINUTE_MS, type Instant } from '../base/instant.ts'
import { compareUsd, nanoUsdOf, zeroUsd, type NanoUsd } from '../base/money.ts'

/** The outcome of earlier replicas of a deployment on a machine. */
export interface PastStarts {
  readonly machineId: string
  /** When one last became ready that did not fail. null: none did. */
  readonly servedAt: Instant | null
  /** When the last one that failed was ordered. null: none did. */
  readonly failedAt: Instant | null
}

export interface ReplicaRank {
  /** The machines of living replicas. A machine with several replicas is listed several times. */
  readonly occupied: ReadonlyArray<string | null>
  readonly past: readonly PastStarts[]
  readonly now: Instant
}

export interface ReplicaMachine {
  readonly id: string
  readonly price_nano_per_gpu_hour: NanoUsd | null
}

/** A machine is avoided for this long after a failed start. */
const AVOIDED_MS = 30 * MINUTE_MS
/** How much more another machine may cost. A failure may also be the fault of the version, or intended. */
export const AVOIDED_FACTOR = 1.5

/** Machines that may be at fault for a failed start. */
export function avoidedMachines({ past, now }: Pick<ReplicaRank, 'past' | 'now'>): string[] {
  return past
    .filter(({ servedAt, failedAt }) => failedAt !== null && failedAt > (servedAt ?? 0))
    .filter(({ failedAt }) => addMs(failedAt ?? now, AVOIDED_MS) > now)
    .map(({ machineId }) => machineId)
}

export function rankForReplica<T extends ReplicaMachine>(machines: readonly T[], rank: ReplicaRank): T[] {
  const avoided = avoidedMachines(rank)
  const ranked = machines.map((machine) => {
    const price = machine.price_nano_per_gpu_hour ?? zeroUsd
    const isAvoided = avoided.includes(machine.id)
    return {
      machine,
      price: isAvoided ? nanoUsdOf((price * BigInt(AVOIDED_FACTOR * 10)) / 10n) : price,
      avoided: isAvoided ? 1 : 0,
      replicas: rank.occupied.filter((id) => id === machine.id).length,
      servedAt: rank.past.find(({ machineId }) => machineId === machine.id)?.servedAt ?? 0,
    }
  })
  return ranked
    .toSorted(
      (a, b) =>
        compareUsd(a.price, b.price) || a.avoided - b.avoided || a.replicas - b.replicas || b.servedAt - a.servedAt,
    )
    .map(({ machine }) => machine)
}
