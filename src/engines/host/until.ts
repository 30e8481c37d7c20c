/** Waiting for a host to have done what was written down for it. */
import { setTimeout as pause } from 'node:timers/promises'

/** Most of it is done soon; who takes longer is asked less often, since many may be waited for at once. */
const LOOK_MS = { first: 100, growth: 1.5, last: 1_000 } as const

/** Looks until it is so; the signal bounds it. `why`: what the host said of it, for the error. */
export async function untilSo(
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
