/** Turns the totals that a runtime counts into the use since the last look. The first look has no rates. */
import type { WorkloadMetrics } from '../contract/agent.ts'
import type { Measured } from '../runtimes/runtime.ts'
import type { ActivityWatch } from './activity.ts'

const MAX_WORKLOADS = 1_000
const MAX_PERCENT = 100

interface Look {
  readonly atMs: number
  readonly measured: Measured
}

export class WorkloadMeter {
  readonly #now: () => number
  readonly #activity: ActivityWatch
  #last = new Map<string, Look>()

  /** `now` in milliseconds, monotonic. */
  constructor(now: () => number, activity: ActivityWatch) {
    this.#now = now
    this.#activity = activity
  }

  read(measured: readonly Measured[]): WorkloadMetrics[] {
    const atMs = this.#now()
    const before = this.#last
    this.#last = new Map(measured.map((one) => [one.id, { atMs, measured: one }]))
    this.#activity.keep(measured.map(({ id }) => id))
    return measured.slice(0, MAX_WORKLOADS).map((one) => {
      const rate = rateSince(before.get(one.id), one, atMs)
      const cpus = rate((look) => look.cpuSeconds)
      return {
        id: one.id,
        cpuPercent: cpus === null ? null : Math.min((cpus / Math.max(one.cpus, 0.01)) * 100, MAX_PERCENT),
        memoryUsedMib: one.memoryUsedMib,
        memoryTotalMib: one.memoryTotalMib,
        diskUsedMib: one.diskUsedMib,
        networkRxBytesPerSecond: rate((look) => look.networkRxBytes),
        networkTxBytesPerSecond: rate((look) => look.networkTxBytes),
        ...this.#activity.read(one.id, one.hasProgram),
      }
    })
  }
}

/** Per second. null: not counted, or counted anew since the last look, as after a restart. */
function rateSince(
  before: Look | undefined,
  now: Measured,
  atMs: number,
): (read: (one: Measured) => number | null) => number | null {
  return (read) => {
    const [from, to] = [before === undefined ? null : read(before.measured), read(now)]
    const seconds = before === undefined ? 0 : (atMs - before.atMs) / 1_000
    return from === null || to === null || to < from || seconds <= 0 ? null : (to - from) / seconds
  }
}
