/**
 * For calls that a customer can send without limit and where only the last one counts: one runs at a time, the newest
 * waits for it, and those in between are dropped.
 */

/** Settles when the work is done or was dropped for a newer call. Rejects with the error of its own work. */
export function latestOnly<T>(work: (value: T) => Promise<void>): (value: T) => Promise<void> {
  let underWay: Promise<void> | undefined
  let waiting: { value: T; settle: (work: Promise<void>) => void } | undefined

  const begin = (value: T): Promise<void> => {
    const done = work(value).finally(() => {
      underWay = undefined
      const next = waiting
      waiting = undefined
      next?.settle(begin(next.value))
    })
    underWay = done
    return done
  }
  return (value) => {
    if (underWay === undefined) return begin(value)
    waiting?.settle(Promise.resolve())
    return new Promise((resolve) => {
      waiting = { value, settle: resolve }
    })
  }
}
