/** Waiting for a host to have done what was written down for it. */
import { setTimeout as pause } from 'node:timers/promises'

const LOOK_EVERY_MS = 150

/** Looks until it is so; the signal bounds it. */
export async function untilSo(what: string, signal: AbortSignal, look: () => Promise<boolean>): Promise<void> {
  while (!(await look())) {
    signal.throwIfAborted()
    await pause(LOOK_EVERY_MS, undefined, { signal }).catch((error: unknown) => {
      throw new Error(`The host has not said in time that ${what}.`, { cause: error })
    })
  }
}
