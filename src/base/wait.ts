/** Waiting on a clock. */
import type { Clock } from './instant.ts'

/** Waits on a clock. Rejects when the signal aborts. */
export async function waitOn(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  if (clock.wait !== undefined) return clock.wait(ms, signal)
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer)
      reject(signal.reason as Error)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop)
      resolve()
    }, ms)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
}
