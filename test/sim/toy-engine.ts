/**
 * An engine that computes in steps, as engines with continuous batching do: slots, a KV cache, prefill in chunks, and a
 * step time that grows with the batch, fitted to a Llama 8B on an H200. It has no clock of its own: `step` says how long
 * it takes. With it, minutes of load at two thousand streams take a second.
 */
import type { EngineLoad } from '../../src/domain/admission-limit.ts'

export interface ToyCall {
  readonly promptTokens: number
  readonly outputTokens: number
  readonly firstToken: (atMs: number) => void
  readonly token?: () => void
  readonly ended: (atMs: number) => void
}

export interface ToyEngineOptions {
  readonly slots: number
  readonly kvTokens: number
}

interface Work {
  readonly call: ToyCall
  /** Tokens still to compute before the next output token. */
  prefill: number
  output: number
  isOut: boolean
}

const STEP_MS = 4.35
const STEP_MS_PER_CALL = 0.06
/** About 50,000 prompt tokens per second. */
const PREFILL_MS_PER_TOKEN = 0.02
const PREFILL_TOKENS_PER_STEP = 8_192

export class ToyEngine {
  /** Output tokens so far. */
  tokens = 0
  preemptions = 0
  /** It computes nothing, although it answers health checks. */
  isStuck = false
  readonly #options: ToyEngineOptions
  readonly #running: Work[] = []
  readonly #waiting: Work[] = []
  #kv = 0

  constructor(options: ToyEngineOptions) {
    this.#options = options
  }

  get load(): EngineLoad {
    return {
      running: this.#running.length,
      waiting: this.#waiting.length,
      kvShare: this.#kv / this.#options.kvTokens,
      preemptions: this.preemptions,
    }
  }

  send(call: ToyCall): void {
    this.#waiting.push({ call, prefill: call.promptTokens, output: 0, isOut: true })
  }

  /** One step that begins now. Returns its duration. */
  step(nowMs: number): number {
    if (this.isStuck) return STEP_MS
    this.#admit()
    let budget = PREFILL_TOKENS_PER_STEP
    for (const work of this.#running) {
      const tokens = Math.min(work.prefill, budget)
      work.prefill -= tokens
      budget -= tokens
    }
    const prefilled = PREFILL_TOKENS_PER_STEP - budget
    const tookMs = STEP_MS + STEP_MS_PER_CALL * this.#running.length + PREFILL_MS_PER_TOKEN * prefilled
    this.#decode(nowMs + tookMs)
    // As engines count: the places of calls that have ended are taken again.
    this.#admit()
    return tookMs
  }

  #admit(): void {
    while (this.#running.length < this.#options.slots) {
      const [next] = this.#waiting
      if (next === undefined || this.#kv + next.prefill > this.#options.kvTokens) return
      this.#waiting.shift()
      next.isOut = false
      this.#running.push(next)
      this.#kv += next.prefill
    }
  }

  #decode(atMs: number): void {
    for (const work of this.#running.slice()) {
      if (work.prefill > 0 || work.isOut) continue
      while (this.#kv + 1 > this.#options.kvTokens && this.#running.at(-1) !== work) this.#preempt()
      this.#kv += 1
      work.output += 1
      this.tokens += 1
      work.call.token?.()
      if (work.output === 1) work.call.firstToken(atMs)
      if (work.output < work.call.outputTokens) continue
      this.#running.splice(this.#running.indexOf(work), 1)
      this.#kv -= work.call.promptTokens + work.output
      work.call.ended(atMs)
    }
  }

  /** The youngest call gives its place up and computes everything again later. */
  #preempt(): void {
    const work = this.#running.pop()
    if (work === undefined) return
    this.preemptions += 1
    this.#kv -= work.call.promptTokens + work.output
    work.prefill = work.call.promptTokens + work.output
    work.isOut = true
    this.#waiting.unshift(work)
  }
}
