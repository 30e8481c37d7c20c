/**
 * Log lines that somebody outside can cause as often as they like: so many a minute for each of them. The first line
 * after a silence says how many were left out.
 */

export interface LineLimit {
  /** What to add to the line. undefined: leave it out. */
  take(key: string): { readonly leftOut?: number } | undefined
}

/** More than so many at once share one limit. */
const MAX_KEYS = 10_000
const MINUTE_MS = 60_000
const FORGET_MS = 10 * MINUTE_MS

export function makeLineLimit(options: { readonly perMinute: number; readonly nowMs?: () => number }): LineLimit {
  const { perMinute, nowMs = () => performance.now() } = options
  const counts = new Map<string, { startedMs: number; lines: number; leftOut: number }>()
  return {
    take: (key) => {
      const now = nowMs()
      // Each use puts a key last, so those that were quiet for longest come first.
      for (const [one, { startedMs }] of counts) {
        if (now - startedMs < FORGET_MS) break
        counts.delete(one)
      }
      const name = counts.has(key) || counts.size < MAX_KEYS ? key : ''
      const count = counts.get(name) ?? { startedMs: now, lines: 0, leftOut: 0 }
      counts.delete(name)
      const isNext = now - count.startedMs >= MINUTE_MS
      const lines = isNext ? 0 : count.lines
      if (lines >= perMinute) {
        counts.set(name, { ...count, leftOut: count.leftOut + 1 })
        return undefined
      }
      counts.set(name, { startedMs: isNext ? now : count.startedMs, lines: lines + 1, leftOut: 0 })
      return count.leftOut === 0 ? {} : { leftOut: count.leftOut }
    },
  }
}
