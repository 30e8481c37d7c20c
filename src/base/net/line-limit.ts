/**
 * Rate limit for log lines that outsiders can cause at will, per minute and key. The first line after a gap gives the
 * number left out.
 */

export interface LineLimit {
  /** Fields to add to the line. undefined: do not log it. */
  take(key: string): { readonly leftOut?: number } | undefined
}

/** Keys beyond this number share one limit. */
const MAX_KEYS = 10_000
const MINUTE_MS = 60_000
const FORGET_MS = 10 * MINUTE_MS

export function makeLineLimit(options: { readonly perMinute: number; readonly nowMs?: () => number }): LineLimit {
  const { perMinute, nowMs = () => performance.now() } = options
  const counts = new Map<string, { startedMs: number; lines: number; leftOut: number }>()
  return {
    take: (key) => {
      const now = nowMs()
      // Each use moves a key to the end, so the longest unused come first.
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
