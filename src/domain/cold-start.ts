/** Divides the time of a replica's start into its phases. */
import type { Instant } from '../base/instant.ts'

/** The end of each phase. null: it has not ended. */
export interface StartTimes {
  readonly createdAt: Instant
  /** The provider was asked for the machine. */
  readonly askedAt: Instant | null
  /** The container was started. */
  readonly startedAt: Instant | null
  /** The request that got the first answer was sent. */
  readonly loadedAt: Instant | null
  /** The replica gave its first answer. */
  readonly readyAt: Instant | null
}

/** The phases in seconds. null: the phase has not ended. */
export interface ColdStart {
  readonly claimSeconds: number | null
  readonly pullSeconds: number | null
  readonly loadSeconds: number | null
  readonly firstTokenSeconds: number | null
}

export function coldStartOf({ createdAt, askedAt, startedAt, loadedAt, readyAt }: StartTimes): ColdStart {
  return {
    claimSeconds: secondsBetween(createdAt, askedAt),
    pullSeconds: secondsBetween(askedAt, startedAt),
    loadSeconds: secondsBetween(startedAt, loadedAt ?? readyAt),
    firstTokenSeconds: secondsBetween(loadedAt, readyAt),
  }
}

/** Never negative: two servers whose clocks differ may have written the times. */
function secondsBetween(from: Instant | null, to: Instant | null): number | null {
  return from === null || to === null ? null : Math.max(to - from, 0) / 1_000
}
