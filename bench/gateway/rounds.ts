/**
 * Interleaved comparison: each round runs every side for a few seconds, in an order that rotates, so that noise on the
 * machine does not hit one side alone. CPU is that of the side with all its processes, read once the side is idle:
 * deferred work counts, and does not fall into another side's time.
 */
import { cpuMs } from '../harness.ts'
import { pause } from './child.ts'
import type { LoadGenerator, LoadJob } from './load.ts'
import type { Side } from './side.ts'

/** Many short ones: the speed of a shared machine changes from second to second, and sides next to each other share it. */
export const ROUNDS = Number.parseInt(process.env['BERTH_BENCH_ROUNDS'] ?? '7', 10)
const ROUND_MS = 3_000
const WARM_UP_MS = 1_000
/** Before the first round: code that is compiled once it is hot takes many requests to be so. */
const FIRST_WARM_UP_MS = 5_000
/** Longer than the delay of any work a side defers. */
const AFTERWARDS_MS = 500

export interface Measured {
  readonly side: Side
  /** One value per round; NaN for a side without a process. */
  readonly cpuUs: number[]
  readonly rates: number[]
  readonly p50Ms: number[]
  readonly p99Ms: number[]
  readonly firstByteMs: number[]
  /** Wrong responses, such as a stream that was closed before its end. */
  readonly faults: number[]
  /** CPU µs per request of each other process that works for this side. */
  readonly besideUs: Readonly<Record<string, number[]>>
}

export interface Comparison {
  readonly sides: readonly Side[]
  readonly load: LoadGenerator
  /** The request, apart from address, key and duration. */
  readonly jobOf: (side: Side) => Omit<LoadJob, 'port' | 'headers' | 'durationMs'>
  readonly roundMs?: number
  readonly beforeRound?: () => Promise<void>
  /** Additional processes (name and pid) by side name, whose CPU is reported separately. */
  readonly beside?: ReadonlyMap<string, Readonly<Record<string, number>>>
}

export async function compareSides({
  sides,
  load,
  jobOf,
  roundMs = ROUND_MS,
  beforeRound,
  beside,
}: Comparison): Promise<Map<string, Measured>> {
  const measured = new Map<string, Measured>()
  for (const side of sides) {
    const none = { cpuUs: [], rates: [], p50Ms: [], p99Ms: [], firstByteMs: [], faults: [] }
    const besideUs = Object.fromEntries(Object.keys(beside?.get(side.name) ?? {}).map((name) => [name, []]))
    measured.set(side.name, { side, ...none, besideUs })
  }
  for (let round = 0; round < ROUNDS; round += 1) {
    const turn = round % sides.length
    await beforeRound?.()
    for (const side of [...sides.slice(turn), ...sides.slice(0, turn)]) {
      const of = measured.get(side.name)
      if (of === undefined || round >= (side.rounds ?? ROUNDS)) continue
      const { port, host, headers } = side
      const countsFaults = side.isOurs !== true
      const job = { ...jobOf(side), port, headers, countsFaults, ...(host === undefined ? {} : { host }) }
      await load.run({ ...job, durationMs: round === 0 ? FIRST_WARM_UP_MS : WARM_UP_MS })
      await waitUntilIdle(side)
      await measureOnce(of, load, { ...job, durationMs: roundMs }, beside?.get(side.name))
    }
  }
  return measured
}

async function measureOnce(
  to: Measured,
  load: LoadGenerator,
  job: LoadJob,
  beside: Readonly<Record<string, number>> = {},
): Promise<void> {
  const cpuOf = (pid: number | undefined): number => (pid === undefined ? Number.NaN : cpuMs(pid))
  const cpuBefore = cpuOf(to.side.pid)
  const besideBefore = Object.entries(beside).map(([name, pid]) => ({ name, pid, cpu: cpuOf(pid) }))
  const result = await load.run(job)
  await waitUntilIdle(to.side)
  to.cpuUs.push(((cpuOf(to.side.pid) - cpuBefore) * 1_000) / result.answered)
  for (const { name, pid, cpu } of besideBefore) to.besideUs[name]?.push(((cpuOf(pid) - cpu) * 1_000) / result.answered)
  to.rates.push((result.answered * 1_000) / result.tookMs)
  to.p50Ms.push(result.latencyMs.p50)
  to.p99Ms.push(result.latencyMs.p99)
  to.firstByteMs.push(result.firstByteMs.p50)
  to.faults.push(result.faults)
}

async function waitUntilIdle(side: Side): Promise<void> {
  await pause(AFTERWARDS_MS)
  await side.rest?.()
}

/** Ratios of two sides, for the rounds of both. */
export function ratiosOf(one: Measured, other: Measured): number[] {
  const rounds = Math.min(one.cpuUs.length, other.cpuUs.length)
  return one.cpuUs.slice(0, rounds).map((value, round) => value / (other.cpuUs[round] ?? Number.NaN))
}
