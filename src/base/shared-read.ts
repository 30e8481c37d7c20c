/**
 * One expensive read that many ask for at the same time. They share it: while one runs nobody starts another, and its
 * value serves everybody until it is too old or known to have changed. Age counts from the start of the read, so the
 * value is never older than `maxAgeMs` plus the time of one read.
 */
export interface SharedRead<T> {
  /** The value as it was no longer than the maximum age ago, with every change that was made known before this call. */
  get(): Promise<T>
  /** What was read until now is out of date. */
  changed(): void
}

interface Reading<T> {
  readonly begunAt: number
  /** How many changes were known when it began. */
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
    const mine: Reading<T> = { begunAt: now(), changes, value: read() }
    running = mine
    // A failure reaches those who wait for it; the next one to ask tries again.
    void (async () => {
      try {
        await mine.value
        done = mine
      } catch {
        // Told to those who wait.
      } finally {
        running = undefined
      }
    })()
    return mine
  }

  return {
    changed: () => void (changes += 1),
    get: async () => {
      const wanted = changes
      if (done !== undefined && done.changes >= wanted) {
        const ageMs = now() - done.begunAt
        // Refreshed ahead of time while somebody asks, so that in the steady state nobody waits.
        if (ageMs > limits.refreshAfterMs && running === undefined) begin()
        if (ageMs <= limits.maxAgeMs) return done.value
      }
      // One that began before the change must be waited for, but does not count: two reads at most.
      if (running !== undefined && running.changes < wanted) await running.value.catch(() => {})
      return (running ?? begin()).value
    },
  }
}
