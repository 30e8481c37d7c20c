/** Waits until a host has applied its desired state. */
import { setTimeout as pause } from 'node:timers/promises'

/** Polling slows down, since many may wait at once. */
const POLL_MS = { first: 100, growth: 1.5, last: 1_000 } as const

/** Polls until true or aborted. `why`: the host's last message, for the error. */
export async function pollUntil(
  what: string,
  signal: AbortSignal,
  check: () => Promise<boolean>,
  why: () => Promise<string | undefined> = async () => undefined,
): Promise<void> {
  for (let waitMs: number = POLL_MS.first; !(await check()); waitMs = Math.min(waitMs * POLL_MS.growth, POLL_MS.last)) {
    signal.throwIfAborted()
    await pause(waitMs, undefined, { signal }).catch(async (error: unknown) => {
      const detail = await why()
      const text = `The host did not confirm in time that ${what}`
      throw new Error(detail === undefined ? `${text}.` : `${text}: ${detail}`, { cause: error })
    })
  }
}
