/**
 * One rate limit across all servers without a database query per request: a server takes a slice of the minute's budget
 * and spends it in memory. An unspent slice expires with its minute, so the limit is never exceeded but sometimes not
 * reached. A counter must not stop service: without the database each server counts alone.
 */
import { addMs, instantOf, MINUTE_MS, type Clock, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { clientNetworkOf } from '../../base/net/client-network.ts'
import { within } from '../../base/within.ts'

/** The first slice is a small part of the minute's budget, since a server that stops soon wastes it. */
const FIRST_SLICES = 100
const SLICES = 10
/** Larger limits are no limits, and a counter above this one still fits its column. */
const MAX_LIMIT = 1_000_000_000
/** The longest that a request waits for a counter. */
const SLICE_TIMEOUT_MS = 1_000
/** After a recall that returned nothing, refused requests start no other for this long. */
const RECALL_AGAIN_MS = 1_000

export interface RateAnswer {
  readonly allowed: boolean
  readonly limit: number
  /** Remaining budget as far as this server knows: slices of other servers count as spent. */
  readonly remaining: number
  readonly resetAt: Instant
}

export interface RateLimiter {
  /** Takes one or several units, counted across all servers. Never allows more than the whole limit. */
  take(subject: string, limitPerMinute: number, amount?: number, forWorker?: number): Promise<RateAnswer>
  /** The same without waiting. undefined: a slice must be fetched first; nothing was taken. */
  tryTake(subject: string, limitPerMinute: number, amount?: number): RateAnswer | undefined
  /**
   * Returns unused units. `resetAt` comes from the answer that allowed them: after that minute they are worth nothing.
   * Without it they count for the current minute.
   */
  giveBack(subject: string, amount: number, resetAt?: number): void
  /** Counts units used beyond what was taken; later requests of this minute wait for them. */
  owe(subject: string, amount: number): void
  /** Counts on this server only, for clients without a key. An IPv6 network of one client (/64) counts as one address. */
  takeByAddress(what: string, address: string, limitPerMinute: number): RateAnswer
  /** Gives up the unspent units of slices, for another worker of this server. */
  giveUp(subject: string, minute: Instant): number
}

export interface SliceRequest {
  readonly subject: string
  readonly minute: Instant
  readonly slice: number
  /** The number of units that the current request needs. */
  readonly least: number
  readonly limit: number
}

/** Lends up to `slice` units of this server's budget to a worker, which spends them in memory. */
export async function lendSlice(
  rates: RateLimiter,
  { subject, slice, least, limit }: SliceRequest,
  worker: number,
): Promise<{ granted: number; taken: number }> {
  for (const granted of slice > least ? [slice, least] : [least]) {
    const { allowed, remaining } = await rates.take(subject, limit, granted, worker)
    if (allowed) return { granted, taken: limit - remaining }
  }
  return { granted: 0, taken: limit }
}

/** Takes up to `slice` units from the minute's budget of all servers. */
export type TakeSlice = (request: SliceRequest) => Promise<{ granted: number; taken: number }>

interface Bucket {
  /** Unspent units of the slices taken. */
  unspent: number
  /** Taken by this server in this minute. */
  granted: number
  /** Taken by all servers. */
  taken: number
  /** No further slice is available. */
  exhausted: boolean
  fetching: Promise<void> | undefined
  /** The last recall returned nothing. */
  noRecallUntilMs: number
}

export interface RateLimiterOptions {
  readonly takeSlice: TakeSlice
  readonly clock: Clock
  readonly sliceTimeoutMs?: number
  /** Called before a request is refused. Returns the unspent units of all workers except the one that asks. */
  readonly recall?: (subject: string, minute: Instant, except: number | undefined) => Promise<number>
  /** false: without an answer, a request fails. Default: this server counts alone. */
  readonly mayCountAlone?: boolean
}

export function makeRateLimiter(options: RateLimiterOptions): RateLimiter {
  const { clock } = options
  const shared = makeWindow((): Bucket => ({
    unspent: 0,
    granted: 0,
    taken: 0,
    exhausted: false,
    fetching: undefined,
    noRecallUntilMs: 0,
  }))
  const localCounts = makeWindow(() => ({ spent: 0 }))

  return {
    take: async (subject, limitPerMinute, amount = 1, forWorker) => {
      const limit = Math.min(limitPerMinute, MAX_LIMIT)
      for (;;) {
        const minute = startOfMinute(clock.now())
        const bucket = shared.of(minute, subject)
        const answer = takeFrom(bucket, minute, limit, amount)
        if (
          answer !== undefined &&
          (answer.allowed || !(await regain(options, bucket, { subject, minute, except: forWorker })))
        )
          return answer
        if (answer !== undefined) continue
        // Waiting requests share one slice and fetch the next one if it was not enough.
        bucket.fetching ??= fetchSlice(options, bucket, { subject, minute, limit, amount })
        await bucket.fetching
      }
    },
    tryTake: (subject, limitPerMinute, amount = 1) => {
      const minute = startOfMinute(clock.now())
      return takeFrom(shared.of(minute, subject), minute, Math.min(limitPerMinute, MAX_LIMIT), amount)
    },
    giveBack: (subject, amount, resetAt) => {
      const minute = startOfMinute(clock.now())
      if (resetAt !== undefined && resetAt !== addMs(minute, MINUTE_MS)) return
      const bucket = shared.find(minute, subject)
      // The bucket never has more than was granted in this minute.
      if (bucket !== undefined) bucket.unspent = Math.min(bucket.unspent + amount, bucket.granted)
    },
    owe: (subject, amount) => {
      shared.of(startOfMinute(clock.now()), subject).unspent -= amount
    },
    giveUp: (subject, minute) => {
      const bucket = shared.find(startOfMinute(clock.now()), subject)
      if (bucket === undefined || minute !== startOfMinute(clock.now()) || bucket.unspent <= 0) return 0
      const { unspent } = bucket
      bucket.unspent = 0
      bucket.granted -= unspent
      return unspent
    },
    takeByAddress: (what, address, limit) => {
      const minute = startOfMinute(clock.now())
      const count = localCounts.of(minute, `${what}:${clientNetworkOf(address)}`)
      const allowed = count.spent < limit
      if (allowed) count.spent += 1
      return { allowed, limit, remaining: Math.max(0, limit - count.spent), resetAt: addMs(minute, MINUTE_MS) }
    },
  }
}

async function fetchSlice(
  { takeSlice, sliceTimeoutMs = SLICE_TIMEOUT_MS, mayCountAlone = true }: RateLimiterOptions,
  bucket: Bucket,
  need: { subject: string; minute: Instant; limit: number; amount: number },
): Promise<void> {
  const { subject, minute, limit } = need
  try {
    const usual = Math.min(Math.floor(limit / SLICES), Math.max(Math.ceil(limit / FIRST_SLICES), bucket.granted))
    const least = Math.max(1, need.amount - bucket.unspent)
    const slice = Math.max(usual, least)
    const { granted, taken: counted } = await within(
      sliceTimeoutMs,
      takeSlice({ subject, minute, slice, least, limit }),
      'the counter did not answer in time',
    )
    bucket.unspent += granted
    bucket.granted += granted
    bucket.taken = counted
    bucket.exhausted = granted === 0
  } catch (error) {
    if (!mayCountAlone) throw error
    // Until the end of the minute, this server counts alone.
    bucket.unspent += Math.max(0, limit - bucket.granted)
    bucket.granted = Math.max(bucket.granted, limit)
    bucket.taken = limit
    bucket.exhausted = true
  } finally {
    bucket.fetching = undefined
  }
}

/** Gets unspent units back from the workers other than `except`. false: there were none. */
async function regain(
  { recall }: RateLimiterOptions,
  bucket: Bucket,
  { subject, minute, except }: { subject: string; minute: Instant; except: number | undefined },
): Promise<boolean> {
  if (recall === undefined || performance.now() < bucket.noRecallUntilMs) return false
  const units = await recall(subject, minute, except)
  bucket.unspent += units
  if (units === 0) bucket.noRecallUntilMs = performance.now() + RECALL_AGAIN_MS
  return units > 0
}

/** undefined: more may be available. */
function takeFrom(bucket: Bucket, minute: Instant, limit: number, amount: number): RateAnswer | undefined {
  const allowed = bucket.unspent >= amount
  if (allowed) bucket.unspent -= amount
  else if (!bucket.exhausted && amount <= limit) return undefined
  const remaining = bucket.unspent + Math.max(0, limit - bucket.taken)
  return { allowed, limit, remaining, resetAt: addMs(minute, MINUTE_MS) }
}

interface Window<Count> {
  of(minute: Instant, subject: string): Count
  /** undefined: nothing counted yet. */
  find(minute: Instant, subject: string): Count | undefined
}

/** Counts of the current minute by subject, for a bounded number of subjects. */
function makeWindow<Count>(make: () => Count): Window<Count> {
  let current = instantOf(0)
  let counts = new Map<string, Count>()
  const find = (minute: Instant, subject: string): Count | undefined => {
    if (minute !== current) {
      current = minute
      counts = new Map()
    }
    return counts.get(subject)
  }
  return {
    find,
    of: (minute, subject) => {
      const existing = find(minute, subject)
      if (existing !== undefined) return existing
      if (counts.size >= limits.rateSubjects) {
        const [oldest] = counts.keys()
        if (oldest !== undefined) counts.delete(oldest)
      }
      const count = make()
      counts.set(subject, count)
      return count
    },
  }
}

function startOfMinute(at: Instant): Instant {
  return instantOf(Math.floor(at / MINUTE_MS) * MINUTE_MS)
}
