/**
 * Admission control: requests and tokens per minute of key and account, concurrent requests, and money for the worst
 * case. Usually all of it is in memory and `tryAdmit` decides at once; if a counter or a purse must be filled first, it
 * returns undefined and takes nothing, and `admit` does the same but waits.
 */
import type { NanoUsd } from '../../base/money.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import type { Caller } from '../call.ts'
import type { Meter, Reservation } from './meter.ts'
import type { Places } from '../dispatch/places.ts'

export interface RateAnswer {
  readonly allowed: boolean
  readonly limit: number
  readonly remaining: number
  readonly resetAt: number
}

/** Counters per minute, across all servers. */
export interface Rates {
  /** undefined: a slice of the minute's budget must be fetched first. */
  tryTake(subject: string, limitPerMinute: number, amount: number): RateAnswer | undefined
  take(subject: string, limitPerMinute: number, amount: number): Promise<RateAnswer>
  /** Works only within the minute in which they were taken, which ends at `resetAt`. */
  giveBack(subject: string, amount: number, resetAt: number): void
  /** Counts units used beyond what was taken; later requests wait for them. */
  owe(subject: string, amount: number): void
}

export interface Admitted {
  readonly reservation: Reservation
  /** The key's request rate; undefined if it was counted before. */
  readonly rate: RateAnswer | undefined
  /** Call once, when the request has ended. */
  readonly leave: (tokensUsed: number) => void
}

interface AdmissionRequest {
  readonly caller: Caller
  /** Estimated usage. */
  readonly tokens: number
  readonly worst: NanoUsd
  /** The key's request still has to be counted. */
  readonly countKey: boolean
}

interface Counted {
  readonly subject: string
  readonly limit: number
  readonly amount: number
  readonly what: 'requests' | 'tokens'
}

interface Taken {
  readonly count: Counted
  readonly answer: RateAnswer
}

interface Claim {
  readonly accountId: string
  readonly reservation: Reservation
  readonly counts: readonly Taken[]
}

export interface AdmissionOptions {
  readonly rates: Rates
  readonly meter: Pick<Meter, 'tryReserve' | 'reserve' | 'cancel'>
  readonly places: Places
  readonly now: () => number
}

export interface Admission {
  tryAdmit(ask: AdmissionRequest): Admitted | undefined
  admit(ask: AdmissionRequest): Promise<Result<Admitted>>
  /** Tells from memory alone whether a request that costs at least `least` would start. Takes nothing. */
  isOpenFor(caller: Caller, least: NanoUsd): boolean
  /** Returns why no request of this caller that costs at least `least` would start now. Takes nothing. */
  refusalFor(caller: Caller, least: NanoUsd): Promise<Failure | undefined>
  underWay(): number
}

export function makeAdmission(options: AdmissionOptions): Admission {
  const { rates, meter, places } = options
  let total = 0

  const enter = (ask: AdmissionRequest, { reservation, counts }: Claim): Admitted => {
    const { accountId } = ask.caller
    total += 1
    return {
      reservation,
      rate: ask.countKey ? counts[0]?.answer : undefined,
      leave: (tokensUsed) => {
        total -= 1
        places.leave(accountId)
        for (const { count, answer } of counts) {
          if (count.what !== 'tokens') continue
          const unused = count.amount - tokensUsed
          if (unused > 0) rates.giveBack(count.subject, unused, answer.resetAt)
          // The request used more than estimated, which counts although it can no longer be refused.
          else if (unused < 0) rates.owe(count.subject, -unused)
        }
      },
    }
  }

  const undo = (counts: readonly Taken[]): void => {
    for (const { count, answer } of counts) rates.giveBack(count.subject, count.amount, answer.resetAt)
  }

  const tryTakeAll = (ask: AdmissionRequest): Claim | undefined => {
    const { accountId, account, purse } = ask.caller
    if (!places.tryEnter(accountId, account.streams)) return undefined
    const counts: Taken[] = []
    for (const count of countsOf(ask)) {
      const answer = rates.tryTake(count.subject, count.limit, count.amount)
      if (answer === undefined || !answer.allowed) {
        places.leave(accountId)
        undo(counts)
        return undefined
      }
      counts.push({ count, answer })
    }
    const reservation = meter.tryReserve(purse, ask.worst)
    if (reservation !== undefined) return { accountId, reservation, counts }
    places.leave(accountId)
    undo(counts)
    return undefined
  }

  const takeAll = async (ask: AdmissionRequest): Promise<Result<Claim>> => {
    const counts: Taken[] = []
    for (const count of countsOf(ask)) {
      const answer = await rates.take(count.subject, count.limit, count.amount)
      if (!answer.allowed) {
        undo(counts)
        return tooMany(count, answer, options.now())
      }
      counts.push({ count, answer })
    }
    const reservation = await meter.reserve(ask.caller.purse, ask.worst)
    if (!reservation.ok) {
      undo(counts)
      return reservation
    }
    const { accountId, account } = ask.caller
    if (await places.enter(accountId, account.streams)) return ok({ accountId, reservation: reservation.value, counts })
    undo(counts)
    meter.cancel(reservation.value)
    return fail('concurrency_limit', { limit: ask.caller.account.streams, retryAfterMs: 1_000 })
  }

  const giveBack = ({ accountId, reservation, counts }: Claim): void => {
    places.leave(accountId)
    undo(counts)
    meter.cancel(reservation)
  }

  return {
    tryAdmit: (ask) => {
      const claim = tryTakeAll(ask)
      return claim === undefined ? undefined : enter(ask, claim)
    },

    admit: async (ask) => {
      const claim = await takeAll(ask)
      return claim.ok ? ok(enter(ask, claim.value)) : claim
    },

    isOpenFor: (caller, least) => {
      const claim = tryTakeAll({ caller, tokens: 0, worst: least, countKey: true })
      if (claim !== undefined) giveBack(claim)
      return claim !== undefined
    },

    refusalFor: async (caller, least) => {
      const claim = await takeAll({ caller, tokens: 0, worst: least, countKey: false })
      if (!claim.ok) return claim
      giveBack(claim.value)
      return undefined
    },

    underWay: () => total,
  }
}

function countsOf({ caller, tokens, countKey }: AdmissionRequest): Counted[] {
  const fixed = fixedCounts(caller)
  const counts = countKey ? [fixed.key, fixed.account] : [fixed.account]
  if (tokens === 0) return counts
  counts.push(tokenCount(fixed.accountTokens, caller.account.tokensPerMinute, tokens))
  if (caller.tokensPerMinute !== null) counts.push(tokenCount(fixed.keyTokens, caller.tokensPerMinute, tokens))
  return counts
}

/** A request larger than the whole limit would never start, so it may take a full minute's budget. */
function tokenCount(subject: string, limit: number, tokens: number): Counted {
  return { subject, limit, amount: limit === 0 ? tokens : Math.min(tokens, limit), what: 'tokens' }
}

/** The counters that all requests of a caller share. */
interface FixedCounts {
  readonly key: Counted
  readonly account: Counted
  /** Subjects. */
  readonly accountTokens: string
  readonly keyTokens: string
}

const countsByCaller = new WeakMap<Caller, FixedCounts>()

function fixedCounts(caller: Caller): FixedCounts {
  const cached = countsByCaller.get(caller)
  if (cached !== undefined) return cached
  const { accountId, keyId, account } = caller
  const fixed: FixedCounts = {
    key: { subject: `key:${keyId}`, limit: caller.requestsPerMinute, amount: 1, what: 'requests' },
    account: { subject: `account:${accountId}`, limit: account.requestsPerMinute, amount: 1, what: 'requests' },
    accountTokens: `account-tokens:${accountId}`,
    keyTokens: `key-tokens:${keyId}`,
  }
  countsByCaller.set(caller, fixed)
  return fixed
}

function tooMany(count: Counted, answer: RateAnswer, now: number): Failure {
  return fail('rate_limited', {
    limit: count.limit,
    unit: count.what,
    retryAfterMs: Math.max(1_000, answer.resetAt - now),
  })
}
