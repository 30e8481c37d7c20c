/** At most so many at the same time; the others wait in the order in which they came. */

export interface Turns {
  /** To be called when it is over. undefined: the signal fired before it was our turn. */
  take(signal: AbortSignal): Promise<(() => void) | undefined>
}

export function makeTurns(limit: number): Turns {
  const waiting = new Set<() => void>()
  let taken = 0

  const giveBack = (): void => {
    taken -= 1
    const [next] = waiting
    next?.()
  }
  const grant = (): (() => void) => {
    taken += 1
    let isOver = false
    return () => {
      if (!isOver) giveBack()
      isOver = true
    }
  }
  return {
    take: async (signal) => {
      if (signal.aborted) return undefined
      if (taken < limit) return grant()
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
