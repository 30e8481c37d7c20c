/** Waits for a fact, not for a time. */
import { DAY_MS, MINUTE_MS, systemClock } from '../../src/base/instant.ts'

const EVERY_MS = 20
const SELDOM_MS = 250
/** Whoever asks all the time takes it from those who are asked: a question that took long is followed by a long pause. */
const PAUSE_FACTOR = 8
const MAX_WAIT_MS = 90_000

/** Asks until the answer is neither undefined nor false; past the limit it says what it waited for. */
export async function waitFor<T>(
  what: string | (() => string),
  ask: () => Promise<T | undefined | false> | T | undefined | false,
  timeoutMs = MAX_WAIT_MS,
): Promise<T> {
  const until = performance.now() + timeoutMs
  for (;;) {
    const askedAt = performance.now()
    const answer = await ask()
    if (answer !== undefined && answer !== false) return answer
    const answeredAt = performance.now()
    if (answeredAt > until) {
      throw new Error(`waited ${timeoutMs} ms in vain for: ${typeof what === 'string' ? what : what()}`)
    }
    const pauseMs = Math.min(SELDOM_MS, Math.max(EVERY_MS, PAUSE_FACTOR * (answeredAt - askedAt)))
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}

/** For what is shown by day: all that follows within a minute is of the same one. */
export async function waitForDayWithTimeLeft(): Promise<void> {
  await waitFor('a day with time left', () => DAY_MS - (systemClock.now() % DAY_MS) > MINUTE_MS)
}

/** Between two looks of someone who counts them: the time of a real engine passes by itself. */
export function lookAgain(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 5 * EVERY_MS))
}
