/** Counts what is in use, by name. Each use counts under several names at once, and each name has a limit. */
export interface Share {
  readonly name: string
  readonly max: number
}

export interface ShareCount {
  /**
   * Returns a function that gives all shares back, once. If one is used up, nothing is taken and that share is
   * returned.
   */
  take<S extends Share>(shares: readonly S[]): (() => void) | S
}

export function makeShareCount(): ShareCount {
  const counts = new Map<string, number>()
  return {
    take: (shares) => {
      const full = shares.find(({ name, max }) => (counts.get(name) ?? 0) >= max)
      if (full !== undefined) return full
      for (const { name } of shares) counts.set(name, (counts.get(name) ?? 0) + 1)
      let isTaken = true
      return () => {
        if (!isTaken) return
        isTaken = false
        for (const { name } of shares) {
          const remaining = (counts.get(name) ?? 0) - 1
          if (remaining > 0) counts.set(name, remaining)
          else counts.delete(name)
        }
      }
    },
  }
}
