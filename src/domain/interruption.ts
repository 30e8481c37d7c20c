/**
 * Which interruptible rentals give their GPUs to an order that finds no free ones, and what that means for both sides.
 */
import { addMs, DAY_MS, MINUTE_MS, SECOND_MS, type Instant } from '../base/instant.ts'
import { STOP_SECONDS } from '../contract/interruption.ts'

/** Programs are told to end this long before the announced time, and killed no earlier than at that time. */
export const LAST_WORDS_MS = 10 * SECOND_MS

const FREE_MS = 10 * MINUTE_MS

/** Offers show the number of interruptions in this period. */
export const INTERRUPTIONS_MS = 7 * DAY_MS

/** A rental on a machine that can be interrupted now. */
export interface Interruptible {
  readonly rentalId: number
  /** When the current run began. */
  readonly runsSince: Instant
  /** The number of its GPUs that work and are promised to nobody. */
  readonly gpus: number
  readonly noticeSeconds: number
}

/**
 * Chooses the rentals to interrupt for so many GPUs: the youngest, which lose the least work, and no more than needed.
 * undefined: all of them together have too few.
 */
export function chooseInterrupted(
  candidates: readonly Interruptible[],
  gpusNeeded: number,
): readonly Interruptible[] | undefined {
  const chosen: Interruptible[] = []
  let gpus = 0
  const youngestFirst = candidates
    .filter((one) => one.gpus > 0)
    .toSorted((one, other) => other.runsSince - one.runsSince || other.rentalId - one.rentalId)
  for (const one of youngestFirst) {
    if (gpus >= gpusNeeded) break
    chosen.push(one)
    gpus += one.gpus
  }
  if (gpus < gpusNeeded) return undefined
  // A rental with many GPUs can make others unnecessary: the oldest of those are spared.
  return chosen
    .toReversed()
    .filter((one) => {
      if (gpus - one.gpus < gpusNeeded) return true
      gpus -= one.gpus
      return false
    })
    .toReversed()
}

/** How long an order must wait if it interrupts these rentals: until the last of them is off. */
export function waitSeconds(interrupted: ReadonlyArray<Pick<Interruptible, 'noticeSeconds'>>): number {
  return Math.max(...interrupted.map(({ noticeSeconds }) => noticeSeconds)) + STOP_SECONDS
}

/** Whether a run is free of charge because its interruption was announced so soon after its start. */
export function isFreeRun(runsSince: Instant, announcedAt: Instant): boolean {
  return announcedAt < addMs(runsSince, FREE_MS)
}
