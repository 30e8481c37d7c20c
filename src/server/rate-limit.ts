/**
 * One limit over all servers without a database call per request: a server takes a slice of the minute's budget and
 * spends it in memory. What a server leaves of its slice is lost with the minute, so the limit is never exceeded and
 * at times not reached. A counter is no reason to refuse service: without the database each server counts alone.
 */
import { addMs, instantOf, MINUTE_MS, type Clock, type Instant } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import type { Database } from '../store/database.ts'
import { takeRateSlice } from '../store/rate-window.ts'

const SLICES = 10
/** Longer than this no request waits for a counter. */
const SLICE_TIMEOUT_MS = 1_000

export interface RateAnswer {
  readonly allowed: boolean
  readonly limit: number
  /** What is left of the minute as far as this server knows: slices that other servers took count as spent. */
  readonly remaining: number
  readonly resetAt: Instant
}

export interface RateLimiter {
  /** Counts over all servers. */
  take(subject: string, limitPerMinute: number): Promise<RateAnswer>
  /** Counts on this server only: for addresses that have shown no key. */
  takeLocal(subject: string, limitPerMinute: number): RateAnswer
}

interface Bucket {
  /** Of the slices taken, not yet spent. */
  left: number
  /** To this server, in this minute. */
  granted: number
  /** By all servers. */
  taken: number
  /** There is no further slice to be had. */
  exhausted: boolean
  fetching: Promise<void> | undefined
}

export function makeRateLimiter(options: { database: Database; clock: Clock }): RateLimiter {
  const { database, clock } = options
  const shared = makeWindow((): Bucket => ({ left: 0, granted: 0, taken: 0, exhausted: false, fetching: undefined }))
  const local = makeWindow(() => ({ spent: 0 }))

  const fetchSlice = async (bucket: Bucket, subject: string, minute: Instant, limit: number): Promise<void> => {
    try {
      const slice = Math.max(1, Math.floor(limit / SLICES))
      const { granted, taken } = await within(
        SLICE_TIMEOUT_MS,
        takeRateSlice(database.db, { subject, minute, slice, limit }),
      )
      bucket.left += granted
      bucket.granted += granted
      bucket.taken = taken
      bucket.exhausted = granted === 0
    } catch {
      // For the rest of the minute this server counts alone.
      bucket.left += Math.max(0, limit - bucket.granted)
      bucket.taken = limit
      bucket.exhausted = true
    } finally {
      bucket.fetching = undefined
    }
  }

  return {
    take: async (subject, limit) => {
      for (;;) {
        const minute = startOfMinute(clock.now())
        const bucket = shared(minute, subject)
        const allowed = bucket.left > 0
        if (allowed) bucket.left -= 1
        if (allowed || bucket.exhausted) {
          const remaining = bucket.left + Math.max(0, limit - bucket.taken)
          return { allowed, limit, remaining, resetAt: addMs(minute, MINUTE_MS) }
        }
        // Those who wait share one slice, and ask for the next one when it was not enough for them.
        bucket.fetching ??= fetchSlice(bucket, subject, minute, limit)
        await bucket.fetching
      }
    },
    takeLocal: (subject, limit) => {
      const minute = startOfMinute(clock.now())
      const count = local(minute, subject)
      const allowed = count.spent < limit
      if (allowed) count.spent += 1
      return { allowed, limit, remaining: Math.max(0, limit - count.spent), resetAt: addMs(minute, MINUTE_MS) }
    },
  }
}

/** What is counted in the current minute, by subject, of a bounded number of subjects. */
function makeWindow<Count>(make: () => Count): (minute: Instant, subject: string) => Count {
  let current = instantOf(0)
  let counts = new Map<string, Count>()
  return (minute, subject) => {
    if (minute !== current) {
      current = minute
      counts = new Map()
    }
    const found = counts.get(subject)
    if (found !== undefined) return found
    if (counts.size >= limits.rateSubjects) {
      const [oldest] = counts.keys()
      if (oldest !== undefined) counts.delete(oldest)
    }
    const made = make()
    counts.set(subject, made)
    return made
  }
}

function startOfMinute(at: Instant): Instant {
  return instantOf(Math.floor(at / MINUTE_MS) * MINUTE_MS)
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('the counter did not answer in time')), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
