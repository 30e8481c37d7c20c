/** Waits until a host has applied its desired state. */
import { setTimeout as pause } from 'node:timers/promises'

/** Polling slows down, since many may wait at once. */
const LOOK_MS = { first: 100, growth: 1.5, last: 1_000 } as const

/** Polls until true or aborted. `why`: the host's last message, for the error. */
export async function pollUntil(
  what: string,
  signal: AbortSignal,
  look: () => Promise<boolean>,
  why: () => Promise<string | undefined> = async () => undefined,
): Promise<void> {
  for (let waitMs: number = LOOK_MS.first; !(await look()); waitMs = Math.min(waitMs * LOOK_MS.growth, LOOK_MS.last)) {
    signal.throwIfAborted()
    await pause(waitMs, undefined, { signal }).catch(async (error: unknown) => {
      const said = await why()
      const text = `The host has not said in time that ${what}`
      throw new Error(said === undefined ? `${text}.` : `${text}: ${said}`, { cause: error })
    })
  }
}
