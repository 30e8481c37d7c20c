/** The calls at one engine and the limit that it has shown so far. The targets of a base model and its adapters share them. */
import {
  autoTarget,
  initialLimit,
  learnLimit,
  type EngineLoad,
  type LimitSample,
  type LimitState,
} from '../../domain/admission-limit.ts'
import type { StatedLimits } from './engine-facts.ts'

export interface Load {
  readonly running: number
  readonly waiting: number
}

/** Older loads are ignored when a target is chosen. */
const MAX_LOAD_AGE_MS = 15_000
/** Weight of the newest call in an average. */
const NEWEST_SHARE = 0.1
const START_PREFILL_RATE = 8
/** With less to compute, the time to the first token does not show the rate. */
const MIN_MEASURED_TOKENS = 2_000
/** The maximum delay of the first token that a cached prefix is worth. */
const AFFINITY_MS = 2_000

export class Slots {
  inFlight = 0
  /** Bytes of answers so far, which grow with the engine's tokens. */
  output = 0
  /** The number of answers with status 429 and 503 so far. */
  refusals = 0
  /** Tokens of a recent call, prompt and answer. null: none has ended yet. */
  meanTokens: number | null = null
  /** The engine produces nothing although calls wait in it, and did not answer a check. */
  isStuck = false
  stated: StatedLimits = { capacity: null, refusesAbove: null }
  kvTokens: number | null = null
  /** The adapters that calls at the engine use. null: unknown. */
  adapters: ReadonlySet<string> | null = null
  /** The prompt tokens at the engine that are not cached and not computed yet. */
  uncached = 0
  /** The prompt tokens that the engine computes per millisecond. */
  #prefillRate = START_PREFILL_RATE
  #state: LimitState = initialLimit
  #load: Load | undefined
  /** The part of the load that others have sent. */
  #foreign = 0
  #loadUntil = 0

  get limit(): number {
    return this.#state.limit
  }

  get isLearningFromMetrics(): boolean {
    return this.#state.source === 'metrics'
  }

  /** Requests that a replica should have before another is rented. */
  autoTargetUpTo(concurrency: number): number {
    const { limit, isProven } = this.#state
    return autoTarget({ limit: Math.min(limit, concurrency), isProven: isProven || limit >= concurrency })
  }

  /** Whether a call whose prefix is cached here should come here, even if another engine has less to do. */
  get isCloseForPrefix(): boolean {
    return this.uncached <= this.#prefillRate * AFFINITY_MS
  }

  /** Notes how long the first token took when the engine had this much to compute. */
  notePrefill(tokens: number, ms: number): void {
    if (tokens < MIN_MEASURED_TOKENS || ms <= 0) return
    this.#prefillRate += (tokens / ms - this.#prefillRate) * NEWEST_SHARE
  }

  /** A call with this many tokens has ended. */
  note(tokens: number): void {
    const before = this.meanTokens ?? tokens
    this.meanTokens = before + (tokens - before) * NEWEST_SHARE
  }

  /** `concurrency`: the limit that the operator has set. */
  learn(sample: LimitSample, concurrency: number): void {
    const { capacity, refusesAbove } = this.stated
    const maximum = Math.min(concurrency, refusesAbove ?? Infinity)
    this.#state = learnLimit(this.#state, sample, { capacity, kvTokens: this.kvTokens, maximum })
  }

  /** `gatewayCalls`: the calls of this gateway, including its workers. */
  setLoad(load: EngineLoad, gatewayCalls: number, now: number): void {
    const running = load.running ?? Math.max(0, gatewayCalls - load.waiting)
    this.#load = { running, waiting: load.waiting }
    this.#foreign = Math.max(0, running + load.waiting - this.inFlight)
    this.#loadUntil = now + MAX_LOAD_AGE_MS
  }

  loadAt(now: number): Load | undefined {
    return now < this.#loadUntil ? this.#load : undefined
  }

  /** The calls at the engine, including those of others. */
  callsAt(now: number): number {
    return this.inFlight + (now < this.#loadUntil ? this.#foreign : 0)
  }
}
