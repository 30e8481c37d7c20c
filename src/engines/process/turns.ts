/** A semaphore with a first-in, first-out queue. */

export interface Turns {
  /** Resolves with a function that releases the place. undefined: the signal fired first. */
  take(signal: AbortSignal): Promise<(() => void) | undefined>
}

export function makeTurns(limit: number): Turns {
  const waiting = new Set<() => void>()
  let inUse = 0

  const giveBack = (): void => {
    inUse -= 1
    const [next] = waiting
    next?.()
  }
  const grant = (): (() => void) => {
    inUse += 1
    let isOver = false
    return () => {
      if (!isOver) giveBack()
      isOver = true
    }
  }
  return {
    take: async (signal) => {
      if (signal.aborted) return undefined
      if (inUse < limit) return grant()
      return new Promise((resolve) => {
        const go = (): void => {
          waiting.delete(go)
          signal.removeEventListener('abort', leave)
          resolve(grant())
        }
        const leave = (): void => {
          waiting.delete(go)
          resolve(undefined)
        }
        waiting.add(go)
        signal.addEventListener('abort', leave, { once: true })
      })
    },
  }
}
