/** Resident memory of a process during some work. */
import { median, residentMb } from '../harness.ts'
import { pause } from './child.ts'

const LOOK_EVERY_MS = 100

export interface Watched {
  /** Samples in MB, one every 100 ms, in order. */
  readonly samples: readonly number[]
}

/** Samples until `work` has ended. */
export async function watchMemory(pid: number, work: Promise<unknown>): Promise<Watched> {
  const samples: number[] = []
  let isOver = false
  const over = work.finally(() => {
    isOver = true
  })
  // The caller gets a failure of the work below.
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

/** The median of the samples between two times. */
export function memoryBetween({ samples }: Watched, fromMs: number, toMs: number): number {
  return median(samples.slice(Math.floor(fromMs / LOOK_EVERY_MS), Math.ceil(toMs / LOOK_EVERY_MS)))
}
