/** The deployments of one model, the calls waiting for a slot at one of them, and how long calls take. */
import { FairQueue, type Account, type QueueLimits, type Waiter } from './fair-queue.ts'
import { RoutingMemory } from './routing-memory.ts'
import type { Target } from './routing-target.ts'
import { chooseTarget, type Tried } from './routing.ts'
import type { UpstreamCall, UpstreamFailure } from '../upstream/upstream-call.ts'
import type { Ticker, Ticking } from '../upstream/ticker.ts'

export interface WaitingCall extends Waiter {
  readonly call: UpstreamCall
  readonly tried: Tried
  /** The time since which it waits in the queue now; its time limit counts from `queuedAt`. */
  readonly waitsSince: number
  start(target: Target, now: number): void
  refuse(kind: UpstreamFailure['kind'], detail: string, retryAfterMs?: number): void
}

/** A call whose answer is paused because its client does not read. */
export interface UnreadCall {
  readonly accountId: string
  readonly unreadSince: number
  cutUnread(): void
}

export interface ModelStats {
  readonly model: string
  readonly queued: number
  /** Calls that had to wait. */
  readonly waited: number
  /** The total waiting time of calls that were sent or reached their time limit. */
  readonly waitedMs: number
  /** Calls that found the queue full or waited too long. */
  readonly rejected: number
  readonly expired: number
  /** Remembered prompt prefixes and sessions. */
  readonly remembered: number
}

/** Weight of the newest call in the average. */
const NEWEST_SHARE = 0.1
const GUESSED_CALL_MS = 1_000
const MIN_RETRY_AFTER_MS = 250
const MAX_RETRY_AFTER_MS = 60_000
/** Engines read prompts faster than they write, so a token of output counts as two of a prompt. */
const OUTPUT_WEIGHT = 2
/** The rate of a model is measured over at least this time. */
const RATE_MS = 2_000

export interface QueueRefusal {
  readonly detail: string
  readonly retryAfterMs: number
}

/**
 * The models of one engine: a base model and its adapters. They share slots, so they take turns: the queue of one must
 * not starve the others.
 */
export class ModelGroup {
  readonly #models: readonly DispatchModel[]
  #next = 0

  constructor(models: readonly DispatchModel[]) {
    this.#models = models
  }

  get hasWaiting(): boolean {
    return this.#models.some(({ queued }) => queued > 0)
  }

  serve(now: number): void {
    for (let idle = 0; idle < this.#models.length;) {
      const isServed = this.#models[this.#next]?.serveOne(now) === true
      this.#next = (this.#next + 1) % this.#models.length
      idle = isServed ? 0 : idle + 1
    }
  }
}

export class DispatchModel implements Ticking {
  place = -1
  readonly name: string
  readonly memory = new RoutingMemory()
  targets: readonly Target[] = []
  group = new ModelGroup([this])
  readonly #queue: FairQueue<WaitingCall>
  #limits: QueueLimits
  /** Whether calls wait for a replica to start if there is no deployment. */
  startsOnDemand = false
  readonly #unread = new Set<UnreadCall>()
  readonly #ticker: Ticker
  #callMs: number | undefined
  #outputTokens = 0
  /** Weighted tokens of all accounts so far. */
  #served = 0
  /** The start of a measurement, which begins when calls wait, and the weighted tokens per millisecond. */
  #measuring: { readonly sinceMs: number; readonly served: number } | undefined
  #rate: number | undefined
  #waited = 0
  #waitedMs = 0
  #rejected = 0
  #expired = 0

  constructor(name: string, limits: QueueLimits, ticker: Ticker) {
    this.name = name
    this.#queue = new FairQueue(limits)
    this.#limits = limits
    this.#ticker = ticker
  }

  setLimits(limits: QueueLimits, startsOnDemand: boolean): void {
    this.#limits = limits
    this.#queue.limits = limits
    this.startsOnDemand = startsOnDemand
  }

  get queued(): number {
    return this.#queue.size
  }

  /** Calls that may start on idle capacity. */
  idlePlaces(now: number): number {
    if (this.group.hasWaiting) return 0
    return this.targets.reduce((sum, target) => sum + (target.mayTake(now) ? target.idlePlaces() : 0), 0)
  }

  /** undefined: the call waits. */
  wait(call: WaitingCall, isRetried: boolean): QueueRefusal | undefined {
    const refusal = isRetried ? undefined : this.#refuseLongWait(call)
    if (refusal !== undefined || !this.#queue.add(call, isRetried)) {
      this.#rejected += 1
      return refusal ?? { detail: 'the queue is full', retryAfterMs: this.retryAfterMs() }
    }
    if (this.#queue.size === 1) this.#measuring = { sinceMs: call.waitsSince, served: this.#served }
    this.#waited += 1
    this.#ticker.add(this)
    this.#ticker.refine(this.#limits.waitMs)
    return undefined
  }

  /** Refuses a call at once if it would wait longer than it may. Without a measured rate, it may try. */
  #refuseLongWait(call: WaitingCall): QueueRefusal | undefined {
    if (this.#rate === undefined || this.#rate <= 0) return undefined
    const waitMs = this.#queue.costAhead(call) / this.#rate
    if (waitMs <= this.#limits.waitMs) return undefined
    return { detail: 'the wait would be too long', retryAfterMs: limitRetry(waitMs - this.#limits.waitMs) }
  }

  #measureRate(now: number): void {
    if (this.#measuring === undefined || now - this.#measuring.sinceMs < RATE_MS) return
    this.#rate = (this.#served - this.#measuring.served) / (now - this.#measuring.sinceMs)
    this.#measuring = { sinceMs: now, served: this.#served }
  }

  /** The weighted tokens that a call will probably take. */
  costOf({ promptTokens }: Pick<UpstreamCall, 'promptTokens'>): number {
    return promptTokens + OUTPUT_WEIGHT * this.#outputTokens
  }

  leave(call: WaitingCall): void {
    this.#queue.remove(call)
  }

  ahead(call: WaitingCall): number {
    return this.targets.reduce((sum, { inFlight }) => sum + inFlight, this.#queue.ahead(call))
  }

  /** A call is sent. Returns the account to which its output is charged. */
  begin({ accountId, promptTokens }: UpstreamCall): Account {
    const account = this.#queue.begin(accountId)
    account.served += promptTokens
    this.#served += promptTokens
    return account
  }

  end(account: Account): void {
    this.#queue.end(account)
  }

  charge(account: Account, outputTokens: number): void {
    account.served += OUTPUT_WEIGHT * outputTokens
    this.#served += OUTPUT_WEIGHT * outputTokens
  }

  holdBack(call: UnreadCall): void {
    this.#unread.add(call)
  }

  resumed(call: UnreadCall): void {
    this.#unread.delete(call)
  }

  /** Serves the next call, because a slot may have become free. Another model of the group may be waiting for it. */
  serve(now: number): void {
    this.group.serve(now)
  }

  /** false: no call waits that could be sent. */
  serveOne(now: number): boolean {
    if (this.#queue.size === 0 || !this.targets.some((target) => target.mayTake(now))) return false
    let chosen: Target | undefined
    const call = this.#queue.take((waiter) => {
      const choice = chooseTarget(this.targets, this.memory, waiter.call, waiter.tried, now)
      if (choice === 'wait' || 'kind' in choice) return false
      chosen = choice
      return true
    })
    if (call === undefined || chosen === undefined) return false
    this.#waitedMs += now - call.waitsSince
    call.start(chosen, now)
    return true
  }

  /** Fails all waiting calls. */
  dismiss(detail: string): void {
    for (const call of this.#queue.expire(Infinity)) call.refuse('no_deployment', detail)
    this.#ticker.remove(this)
  }

  tick(now: number): void {
    for (const call of this.#queue.expire(now)) {
      this.#expired += 1
      this.#waitedMs += now - call.waitsSince
      call.refuse('overloaded', 'waited too long for a slot', this.retryAfterMs())
    }
    this.#cutUnread(now)
    // A pause or a breaker may have ended, which triggers no event.
    this.serve(now)
    this.#measureRate(now)
    if (this.#queue.size > 0) return
    this.#ticker.remove(this)
    this.#measuring = undefined
    this.#rate = undefined
  }

  /** A client that does not read blocks a slot: cut it off after a moment while others wait. */
  #cutUnread(now: number): void {
    for (const call of this.#unread) {
      if (now - call.unreadSince >= this.#limits.unreadMs && this.#queue.hasOther(call.accountId)) call.cutUnread()
    }
  }

  note(callMs: number, outputTokens: number): void {
    const before = this.#callMs ?? callMs
    if (this.#callMs === undefined) this.#outputTokens = outputTokens
    this.#callMs = before + (callMs - before) * NEWEST_SHARE
    this.#outputTokens += (outputTokens - this.#outputTokens) * NEWEST_SHARE
  }

  /** Estimated time until the waiting calls have been served, from recent call times. */
  retryAfterMs(): number {
    const places = this.targets.reduce((sum, target) => sum + (target.isInUse ? target.limit : 0), 0)
    const estimateMs = ((this.#callMs ?? GUESSED_CALL_MS) * (this.#queue.size + 1)) / Math.max(1, places)
    return limitRetry(estimateMs)
  }

  stats(): ModelStats {
    return {
      model: this.name,
      queued: this.#queue.size,
      waited: this.#waited,
      waitedMs: this.#waitedMs,
      rejected: this.#rejected,
      expired: this.#expired,
      remembered: this.memory.size,
    }
  }
}

function limitRetry(ms: number): number {
  return Math.round(Math.min(Math.max(ms, MIN_RETRY_AFTER_MS), MAX_RETRY_AFTER_MS))
}
