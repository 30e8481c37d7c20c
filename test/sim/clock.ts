/** A clock that only a test advances, so that a test covers a month without waiting. */
import { addMs, instantOf, type Clock, type Instant } from '../../src/base/instant.ts'

export interface ManualClock extends Clock {
  advance(ms: number): void
  set(at: Instant): void
}

const DEFAULT_START = instantOf(Date.UTC(2026, 0, 1, 12))

export function manualClock(start: Instant = DEFAULT_START): ManualClock {
  let now = start
  // A clock that runs backwards is a mistake in a test and causes misleading failures.
  const set = (at: Instant): void => {
    if (at < now) throw new RangeError(`the clock cannot go back by ${now - at} ms`)
    now = at
  }
  // Waiting does not advance it, and ends at once: what is paced in production runs without pauses in a test.
  const wait = async (_ms: number, signal: AbortSignal): Promise<void> => signal.throwIfAborted()
  return { now: () => now, wait, advance: (ms) => set(addMs(now, ms)), set }
}
