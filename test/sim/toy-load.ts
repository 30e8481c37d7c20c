/** Clients that each send their next call when the last has ended, to one engine through gateways that learn its limit. */
import {
  initialLimit,
  learnLimit,
  queueOf,
  type EngineFacts,
  type EngineLoad,
  type LimitState,
} from '../../src/domain/admission-limit.ts'
import { ToyEngine, type ToyEngineOptions } from './toy-engine.ts'

export interface ToyLoad extends ToyEngineOptions {
  readonly streams: number
  readonly promptTokens: number
  readonly outputTokens: number
  /** 0: the clients ask the engine directly. */
  readonly gateways: number
  readonly seconds: number
  readonly facts?: Partial<EngineFacts>
  /** The load that a gateway sees. The default is the engine's own. */
  readonly seen?: (load: EngineLoad, atMs: number) => EngineLoad | null
}

export interface ToyResult {
  /** Output tokens per second, after the first five seconds. */
  readonly tokensPerSecond: number
  readonly firstTokenMs: number
  readonly preemptions: number
  /** One entry per second, after the first five: calls that wait in the engine, and the limits of the gateways. */
  readonly waiting: readonly number[]
  readonly limits: ReadonlyArray<readonly number[]>
  /** Every sample, with the highest running count of the last ten. */
  readonly samples: ReadonlyArray<{
    readonly atMs: number
    readonly state: LimitState
    readonly share: number
    readonly load: EngineLoad
  }>
}

const SETTLE_MS = 5_000
const SAMPLE_WAITING_MS = 1_000
const SAMPLE_MS = 3_000

class ToyGateway {
  state: LimitState
  inFlight = 0
  nextSampleMs = 0
  readonly queue: Array<() => void> = []

  constructor(state: LimitState) {
    this.state = state
  }

  send(start: () => void): void {
    if (this.inFlight >= this.state.limit) return void this.queue.push(start)
    this.inFlight += 1
    start()
  }

  end(): void {
    this.inFlight -= 1
    this.serve()
  }

  serve(): void {
    while (this.queue.length > 0 && this.inFlight < this.state.limit) {
      this.inFlight += 1
      this.queue.shift()?.()
    }
  }
}

export function runToyLoad(load: ToyLoad): ToyResult {
  const engine = new ToyEngine(load)
  const facts: EngineFacts = { capacity: null, kvTokens: null, maximum: Infinity, ...load.facts }
  const isDirect = load.gateways === 0
  const gateways = Array.from(
    { length: Math.max(1, load.gateways) },
    () => new ToyGateway(isDirect ? { ...initialLimit, limit: Infinity } : initialLimit),
  )
  const firstTokens: number[] = []
  const samples: Array<ToyResult['samples'][number]> = []
  const waiting: number[] = []
  const limits: number[][] = []
  let now = 0
  const talk = (gateway: ToyGateway, outputTokens: number): void => {
    const askedAt = now
    gateway.send(() =>
      engine.send({
        promptTokens: load.promptTokens,
        outputTokens,
        firstToken: (atMs) => {
          if (askedAt >= SETTLE_MS) firstTokens.push(atMs - askedAt)
        },
        ended: (atMs) => {
          now = Math.max(now, atMs)
          gateway.end()
          talk(gateway, load.outputTokens)
        },
      }),
    )
  }
  // Real clients are not in step: the first answers differ in length.
  for (let n = 0; n < load.streams; n += 1) {
    const gateway = gateways[n % gateways.length] ?? gateways[0]
    if (gateway !== undefined) talk(gateway, 1 + Math.floor((load.outputTokens * (n + 1)) / load.streams))
  }

  const sample = (gateway: ToyGateway): void => {
    const isWaiting = gateway.queue.length > 0
    gateway.nextSampleMs = now + (isWaiting ? SAMPLE_WAITING_MS : SAMPLE_MS)
    const real = engine.load
    const meanTokens = load.promptTokens + load.outputTokens
    const { inFlight } = gateway
    const seen = load.seen === undefined ? real : load.seen(real, now)
    const entry = { atMs: now, load: seen, inFlight, isWaiting, output: engine.tokens, refusals: 0, meanTokens }
    gateway.state = learnLimit(gateway.state, entry, facts)
    const calls = (real.running ?? 0) + real.waiting
    samples.push({ atMs: now, state: gateway.state, share: calls === 0 ? 1 : inFlight / calls, load: real })
    gateway.serve()
  }

  let settledTokens: number | undefined
  let nextSecond = SETTLE_MS
  const endMs = load.seconds * 1_000
  while (now < endMs) {
    if (!isDirect) for (const gateway of gateways) if (now >= gateway.nextSampleMs) sample(gateway)
    const beganAt = now
    now = Math.max(now, beganAt + engine.step(beganAt))
    if (now < nextSecond) continue
    settledTokens ??= engine.tokens
    waiting.push(engine.load.waiting)
    limits.push(gateways.map(({ state }) => state.limit))
    nextSecond += 1_000
  }
  return {
    tokensPerSecond: (engine.tokens - (settledTokens ?? 0)) / (load.seconds - SETTLE_MS / 1_000),
    firstTokenMs: firstTokens.toSorted((a, b) => a - b)[Math.floor(firstTokens.length / 2)] ?? Number.NaN,
    preemptions: engine.preemptions,
    waiting,
    limits,
    samples,
  }
}

/** The longest queue that promise 3 allows in an engine that runs so many. */
export function longestQueue(running: number): number {
  return 2 * queueOf(running + queueOf(running))
}
