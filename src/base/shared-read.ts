/**
 * Shares one expensive read among concurrent callers: at most one read runs at a time, and its value is served until it
 * is too old or known to have changed. Age counts from the start of the read, so the value is never older than
 * `maxAgeMs` plus the time of one read.
 */
export interface SharedRead<T> {
  /** A value within the maximum age that includes every change announced before this call. */
  get(): Promise<T>
  /** Announces a change: earlier reads are out of date. */
  changed(): void
}

interface Reading<T> {
  readonly begunAt: number
  /** Number of announced changes when it started. */
  readonly changes: number
  readonly value: Promise<T>
}

export function makeSharedRead<T>(
  read: () => Promise<T>,
  limits: { readonly maxAgeMs: number; readonly refreshAfterMs: number },
  now: () => number = () => performance.now(),
): SharedRead<T> {
  let changes = 0
  let done: Reading<T> | undefined
  let running: Reading<T> | undefined

  const begin = (): Reading<T> => {
    const reading: Reading<T> = { begunAt: now(), changes, value: read() }
    running = reading
    // A failure goes to the waiting callers; the next call tries again.
    void (async () => {
      try {
        await reading.value
        done = reading
      } catch {
        // Reported to the waiting callers.
      } finally {
        running = undefined
      }
    })()
    return reading
  }

  return {
    changed: () => void (changes += 1),
    get: async () => {
      const minChanges = changes
      if (done !== undefined && done.changes >= minChanges) {
        const ageMs = now() - done.begunAt
        // Refreshed early while in use, so that callers do not wait in the steady state.
        if (ageMs > limits.refreshAfterMs && running === undefined) begin()
        if (ageMs <= limits.maxAgeMs) return done.value
      }
      // A read that started before the change must finish first but does not count: at most two reads.
      if (running !== undefined && running.changes < minChanges) await running.value.catch(() => {})
      return (running ?? begin()).value
    },
  }
}
