/** Divides the time of a replica's start into its phases. */
import type { Instant } from '../base/instant.ts'

/** When each phase ended. null: not yet. */
export interface StartTimes {
  readonly createdAt: Instant
  /** Its machine was asked for. */
  readonly askedAt: Instant | null
  /** Its container runs. */
  readonly startedAt: Instant | null
  /** The request that it answered first was sent to it. */
  readonly loadedAt: Instant | null
  /** It has answered. */
  readonly readyAt: Instant | null
}

/** In seconds. null: the phase has not ended. */
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

/** Never below zero: servers whose clocks differ write the two times. */
function secondsBetween(from: Instant | null, to: Instant | null): number | null {
  return from === null || to === null ? null : Math.max(to - from, 0) / 1_000
}
