/** Waits for a condition, not for a fixed time. */
import { DAY_MS, MINUTE_MS, systemClock } from '../../src/base/instant.ts'

const EVERY_MS = 20
/**
 * The longer it takes, the longer the pauses, up to this many milliseconds: constant polling slows down what is tested. It
 * was a fourth of the CPU time of some tests.
 */
const SELDOM_MS = 500
const PAUSE_SHARE = 1 / 8
const MAX_WAIT_MS = 90_000

/** Polls until the result is neither undefined, null nor false; on timeout it names the condition. */
export async function waitFor<T>(
  what: string | (() => string),
  ask: () => Promise<T | undefined | null | false> | T | undefined | null | false,
  timeoutMs = MAX_WAIT_MS,
): Promise<T> {
  const startedAt = performance.now()
  for (;;) {
    const answer = await ask()
    if (answer !== undefined && answer !== null && answer !== false) return answer
    const waitedMs = performance.now() - startedAt
    if (waitedMs > timeoutMs) {
      throw new Error(`timed out after ${timeoutMs} ms waiting for: ${typeof what === 'string' ? what : what()}`)
    }
    const pauseMs = Math.min(SELDOM_MS, Math.max(EVERY_MS, PAUSE_SHARE * waitedMs))
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}

/** For data shown by day: everything in the next minute falls on the same day. */
export async function waitForDayWithTimeLeft(): Promise<void> {
  await waitFor('a day with time left', () => DAY_MS - (systemClock.now() % DAY_MS) > MINUTE_MS)
}

/** Delay between two polls of a test that counts them: a real engine's time passes on its own. */
export function pollDelay(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 5 * EVERY_MS))
}
