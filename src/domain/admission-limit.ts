/**
 * How many calls a gateway may have at an engine. The engine decides its batch; we keep its queue short and never empty,
 * so that our fair queue decides who is next. Latency says nothing here, since answers differ a thousandfold in length:
 * the engine's own counts of running and waiting calls decide, or our own output where there are none. Several gateways
 * share an engine without knowing of each other: each takes its part of what the engine runs, by its part of the calls
 * there. All figures are of one gateway with its workers.
 */

/** The state of an engine as its metrics report it. */
export interface EngineLoad {
  /** null: the engine counts only those that wait. */
  readonly running: number | null
  /** Calls that wait for room in the batch. */
  readonly waiting: number
  /** The part of the KV cache in use, from 0 to 1. null: unknown. */
  readonly kvShare: number | null
  /** Calls that lost their place in the KV cache, since the engine started. null: unknown. */
  readonly preemptions: number | null
}

export interface EngineFacts {
  /** Calls that the engine runs at once. null: unknown. */
  readonly capacity: number | null
  /** Tokens that its KV cache holds. null: unknown. */
  readonly kvTokens: number | null
  /** An explicit limit, or one at which the engine refuses calls. */
  readonly maximum: number
}

export interface LimitSample {
  readonly atMs: number
  /** null: the engine gave no metrics. */
  readonly load: EngineLoad | null
  /** Our calls at the engine. */
  readonly inFlight: number
  /** Whether calls wait here for a slot. */
  readonly isWaiting: boolean
  /** Output that we have received from the engine so far, in any unit that grows with its tokens. */
  readonly output: number
  /** Answers 429 and 503 so far. */
  readonly refusals: number
  /** Tokens of a recent request, prompt and answer. null: none has ended yet. */
  readonly meanTokens: number | null
}

export interface LimitState {
  readonly limit: number
  /** The engine's queue was too long once, or its capacity is known: the limit is more than a guess. */
  readonly isProven: boolean
  readonly source: 'none' | 'metrics' | 'output'
  /** The latest running counts, newest last. */
  readonly running: readonly number[]
  /** Samples in a row in which the engine's queue was too long. */
  readonly longQueues: number
  readonly preemptions: number | null
  /** The limit does not grow before this time. */
  readonly heldUntilMs: number
  readonly metricsAtMs: number
  readonly refusals: number
  readonly climb: Climb | null
}

/** A search by our own output: a step up stays if the output rises. */
interface Climb {
  readonly atMs: number
  readonly output: number
  /** Output per millisecond before the last step. null: no step yet. */
  readonly rate: number | null
  /** The limit before the last step. */
  readonly before: number
  readonly isSettled: boolean
}

export const START_WITH_METRICS = 256
export const MIN_WITHOUT_METRICS = 32
const MAX_LEARNED = 4_096
const MIN_QUEUE = 4
const QUEUE_PART = 16
const RUNNING_SAMPLES = 10
const STILL_RISES = 1.05
const LONG_QUEUE_SAMPLES = 2
const FULL_KV = 0.95
const HOLD_MS = 5_000
const METRICS_LOST_MS = 60_000
const CLIMB_MS = 2_000
const CLIMB_STEP = 1.25
const CLIMB_GAIN = 1.03
/** A settled search begins again when the output differs by this much. */
const CLIMB_AGAIN = 0.2
const AFTER_REFUSAL = 0.7
const AUTO_TARGET = 0.7

export const initialLimit: LimitState = {
  limit: MIN_WITHOUT_METRICS,
  isProven: false,
  source: 'none',
  running: [],
  longQueues: 0,
  preemptions: null,
  heldUntilMs: -Infinity,
  metricsAtMs: -Infinity,
  refusals: 0,
  climb: null,
}

/** How many calls should wait in an engine that runs `calls`: enough that it never idles between two of them. */
export function queueOf(calls: number): number {
  return Math.max(MIN_QUEUE, Math.ceil(calls / QUEUE_PART))
}

/**
 * The number of requests that one replica should have before another is rented. A guessed limit is exceeded only once
 * calls wait.
 */
export function autoTarget({ limit, isProven }: Pick<LimitState, 'limit' | 'isProven'>): number {
  return isProven ? Math.max(1, AUTO_TARGET * limit) : limit
}

export function learnLimit(state: LimitState, sample: LimitSample, facts: EngineFacts): LimitState {
  const next = sample.load === null ? learnBlind(state, sample) : learnFromLoad(state, sample, sample.load, facts)
  const bounded = facts.capacity === null ? next : startAtCapacity(next, state, facts.capacity)
  return { ...bounded, limit: clamp(bounded.limit, facts), refusals: sample.refusals }
}

function clamp(limit: number, { capacity, maximum }: EngineFacts): number {
  const ceiling = capacity === null ? MAX_LEARNED : capacity + queueOf(capacity)
  return Math.max(1, Math.min(limit, ceiling, maximum))
}

/** An engine whose capacity is known needs no search from below. */
function startAtCapacity(next: LimitState, before: LimitState, capacity: number): LimitState {
  if (before.isProven && before.source !== 'none') return next
  return { ...next, isProven: true, limit: capacity + queueOf(capacity) }
}

function learnFromLoad(before: LimitState, sample: LimitSample, load: EngineLoad, facts: EngineFacts): LimitState {
  const state = before.source === 'metrics' ? before : startWithMetrics(before, sample, facts)
  const { inFlight, atMs } = sample
  const { waiting, preemptions } = load
  const running = load.running ?? Math.max(0, inFlight - waiting)
  const calls = running + waiting
  // The engine's counts are a moment older than ours.
  const share = inFlight === 0 || calls === 0 ? 1 : Math.min(1, inFlight / calls)
  const queue = queueOf(state.limit / share)
  const recent = [...state.running, running].slice(-RUNNING_SAMPLES)
  const peak = Math.max(...recent)
  const isRising = running > (state.running.at(-1) ?? 0) * STILL_RISES
  const longQueues = waiting > 2 * queue && !isRising ? state.longQueues + 1 : 0
  const nextState: LimitState = { ...state, running: recent, longQueues, preemptions, metricsAtMs: atMs, climb: null }

  // After a cut, our calls beyond the limit drain first. Another cut during that time would favor the gateway that
  // drains last.
  const isDraining = inFlight > state.limit
  const hasPreempted = preemptions !== null && state.preemptions !== null && preemptions > state.preemptions
  const isFull = (load.kvShare ?? 0) >= FULL_KV
  if (hasPreempted || (isFull && waiting > 0)) {
    const limit = isDraining ? state.limit : Math.max(1, Math.ceil(share * running))
    return { ...nextState, limit, isProven: true, running: [running], longQueues: 0, heldUntilMs: atMs + HOLD_MS }
  }
  if (longQueues >= LONG_QUEUE_SAMPLES && !isDraining)
    return { ...nextState, limit: Math.ceil(share * (peak + queue)), isProven: true }
  // Growing into a full cache would help only the gateway that looks first; the others would be cut.
  const hasRoom = waiting <= queue && !isFull && atMs >= state.heldUntilMs
  const mayGrow = sample.isWaiting && hasRoom && inFlight >= state.limit / 2
  const grown = mayGrow ? (state.isProven ? state.limit + Math.ceil(share * queue) : state.limit * 2) : state.limit
  return { ...nextState, limit: inFlight === 0 ? grown : Math.max(grown, Math.ceil(share * peak)) }
}

function startWithMetrics(before: LimitState, { meanTokens }: LimitSample, { kvTokens }: EngineFacts): LimitState {
  const fit = kvTokens === null || meanTokens === null ? Infinity : Math.floor(kvTokens / meanTokens)
  const guess = Math.max(1, Math.min(START_WITH_METRICS, fit))
  // A limit that was found without metrics, or before they were lost, is better than a guess.
  const limit = before.isProven ? before.limit : before.source === 'none' ? guess : Math.max(before.limit, guess)
  return { ...before, source: 'metrics', limit, climb: null }
}

/** Without metrics, the limit is searched by our own output. For a while after metrics were lost, it stays. */
function learnBlind(state: LimitState, sample: LimitSample): LimitState {
  const { atMs } = sample
  if (state.source === 'metrics' && atMs - state.metricsAtMs < METRICS_LOST_MS) return state
  const blind: LimitState = {
    ...state,
    source: 'output',
    running: [],
    longQueues: 0,
    preemptions: null,
    limit: Math.max(MIN_WITHOUT_METRICS, state.limit),
  }
  const begun = { atMs, output: sample.output, rate: null, before: blind.limit, isSettled: false }
  if (sample.refusals > state.refusals) {
    const limit = Math.max(MIN_WITHOUT_METRICS, Math.floor(blind.limit * AFTER_REFUSAL))
    return { ...blind, limit, isProven: true, climb: { ...begun, before: limit, isSettled: true } }
  }
  if (!sample.isWaiting || blind.climb === null) return { ...blind, climb: begun }
  return climb(blind, blind.climb, sample)
}

function climb(state: LimitState, last: Climb, { atMs, output }: LimitSample): LimitState {
  if (atMs - last.atMs < CLIMB_MS) return state
  const rate = (output - last.output) / (atMs - last.atMs)
  const next = { atMs, output, rate, before: state.limit, isSettled: false }
  if (last.isSettled) {
    const isAsBefore = last.rate === null || Math.abs(rate - last.rate) <= last.rate * CLIMB_AGAIN
    return { ...state, climb: isAsBefore ? { ...next, rate: last.rate ?? rate, isSettled: true } : next }
  }
  if (last.rate === null || rate >= last.rate * CLIMB_GAIN) {
    return { ...state, limit: Math.ceil(state.limit * CLIMB_STEP), climb: next }
  }
  return { ...state, limit: last.before, isProven: true, climb: { ...next, before: last.before, isSettled: true } }
}
