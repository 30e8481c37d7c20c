/**
 * Both sides of a comparison in one go: each round asks every side for a few seconds, one after the other, in an order
 * that moves on with each round, so that a noisy moment of the machine hits none of them alone. CPU is that of the side
 * with all its processes, and is looked at when the side has come to rest: what it puts off counts, and does not fall
 * into the time of the others.
 */
import { cpuMs } from '../harness.ts'
import { pause } from './child.ts'
import type { LoadGenerator, LoadJob } from './load.ts'
import type { Side } from './side.ts'

export const ROUNDS = 3
const ROUND_MS = 3_000
const WARM_UP_MS = 1_000
/** Longer than small things wait that a side does behind an answer. */
const AFTERWARDS_MS = 500

export interface Measured {
  readonly side: Side
  /** One value a round. Of a side without a process they are NaN. */
  readonly cpuUs: number[]
  readonly rates: number[]
  readonly p50Ms: number[]
  readonly p99Ms: number[]
  readonly firstByteMs: number[]
  /** CPU µs a request of another process that works for this side, if one was named. */
  readonly besideUs: number[]
}

export interface Comparison {
  readonly sides: readonly Side[]
  readonly load: LoadGenerator
  /** What a side is asked, apart from its address, key and for how long. */
  readonly jobOf: (side: Side) => Omit<LoadJob, 'port' | 'headers' | 'durationMs'>
  readonly roundMs?: number
  /** By the name of a side, a process beside it whose CPU is told apart. */
  readonly beside?: ReadonlyMap<string, number>
}

export async function compareSides({
  sides,
  load,
  jobOf,
  roundMs = ROUND_MS,
  beside,
}: Comparison): Promise<Map<string, Measured>> {
  const measured = new Map<string, Measured>()
  for (const side of sides) {
    const none = { cpuUs: [], rates: [], p50Ms: [], p99Ms: [], firstByteMs: [], besideUs: [] }
    measured.set(side.name, { side, ...none })
  }
  for (let round = 0; round < ROUNDS; round += 1) {
    const turn = round % sides.length
    for (const side of [...sides.slice(turn), ...sides.slice(0, turn)]) {
      const of = measured.get(side.name)
      if (of === undefined) continue
      const job = { ...jobOf(side), port: side.port, headers: side.headers }
      await load.run({ ...job, durationMs: WARM_UP_MS })
      await comeToRest(side)
      await measureOnce(of, load, { ...job, durationMs: roundMs }, beside?.get(side.name))
    }
  }
  return measured
}

async function measureOnce(of: Measured, load: LoadGenerator, job: LoadJob, beside: number | undefined): Promise<void> {
  const cpuOf = (pid: number | undefined): number => (pid === undefined ? Number.NaN : cpuMs(pid))
  const cpuBefore = cpuOf(of.side.pid)
  const besideBefore = cpuOf(beside)
  const result = await load.run(job)
  await comeToRest(of.side)
  of.cpuUs.push(((cpuOf(of.side.pid) - cpuBefore) * 1_000) / result.answered)
  of.besideUs.push(((cpuOf(beside) - besideBefore) * 1_000) / result.answered)
  of.rates.push((result.answered * 1_000) / result.tookMs)
  of.p50Ms.push(result.latencyMs.p50)
  of.p99Ms.push(result.latencyMs.p99)
  of.firstByteMs.push(result.firstByteMs.p50)
}

async function comeToRest(side: Side): Promise<void> {
  await pause(AFTERWARDS_MS)
  await side.rest?.()
}

/** What two sides have to each other, round by round. */
export function ratiosOf(one: Measured, other: Measured): number[] {
  return one.cpuUs.map((value, round) => value / (other.cpuUs[round] ?? Number.NaN))
}
