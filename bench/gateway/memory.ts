/** Resident memory of a process while something goes on. */
import { median, residentMb } from '../harness.ts'
import { pause } from './child.ts'

const LOOK_EVERY_MS = 100

export interface Watched {
  /** MB, a look every tenth of a second, in their order. */
  readonly samples: readonly number[]
}

/** Looks until `work` has ended. */
export async function watchMemory(pid: number, work: Promise<unknown>): Promise<Watched> {
  const samples: number[] = []
  let isOver = false
  const over = work.finally(() => {
    isOver = true
  })
  // Whoever gave us the work hears of its failure below.
  over.catch(() => {})
  while (!isOver) {
    samples.push(residentMb(pid))
    await pause(LOOK_EVERY_MS)
  }
  await over
  return { samples }
}

export async function memoryNow(pid: number): Promise<number> {
  const { samples } = await watchMemory(pid, pause(1_000))
  return median(samples)
}

/** The median of the looks between two moments. */
export function memoryBetween({ samples }: Watched, fromMs: number, toMs: number): number {
  return median(samples.slice(Math.floor(fromMs / LOOK_EVERY_MS), Math.ceil(toMs / LOOK_EVERY_MS)))
}
