/**
 * The order in which machines are tried for a replica: cheapest first, then spread, then those that have served the
 * deployment, because they are likely to have its image and weights.
 */
import { addMs, MINUTE_MS, type Instant } from '../base/instant.ts'
import { compareUsd, zeroUsd, type NanoUsd } from '../base/money.ts'

/** What earlier replicas of a deployment on a machine came to. */
export interface PastStarts {
  readonly machineId: string
  /** When one last answered. null: none did. */
  readonly servedAt: Instant | null
  /** When the last one of this version that failed before its first answer was ordered. null: none did. */
  readonly failedAt: Instant | null
}

export interface ReplicaMachine {
  readonly id: string
  readonly price_nano_per_gpu_hour: NanoUsd | null
}

const unknown = { servedAt: null, failedAt: null }

/** A machine may be at fault for a failed start, so for so long others are tried before it, even if they cost more. */
const AVOIDED_MS = 30 * MINUTE_MS

/** `occupied`: the machines of living replicas, each as often as it has one. */
export function rankForReplica<T extends ReplicaMachine>(
  machines: readonly T[],
  { occupied, past, now }: { occupied: ReadonlyArray<string | null>; past: readonly PastStarts[]; now: Instant },
): T[] {
  const ranked = machines.map((machine) => {
    const { servedAt, failedAt } = past.find(({ machineId }) => machineId === machine.id) ?? unknown
    const isAvoided = failedAt !== null && failedAt > (servedAt ?? 0) && addMs(failedAt, AVOIDED_MS) > now
    return {
      machine,
      avoided: isAvoided ? 1 : 0,
      price: machine.price_nano_per_gpu_hour ?? zeroUsd,
      replicas: occupied.filter((id) => id === machine.id).length,
      servedAt: servedAt ?? 0,
    }
  })
  return ranked
    .toSorted(
      (a, b) =>
        a.avoided - b.avoided || compareUsd(a.price, b.price) || a.replicas - b.replicas || b.servedAt - a.servedAt,
    )
    .map(({ machine }) => machine)
}
