/** The loaded model, its request queue and their metrics. */
import type { LlamaContextSequence } from 'node-llama-cpp'
import { Metrics } from '../../base/metrics.ts'
import type { Result } from '../../contract/result.ts'
import type { Usage } from './answer.ts'
import { generateAnswer, type AnswerPiece, type FinishReason, type Tally } from './generation.ts'
import { prepareJob, type Job } from './job.ts'
import type { LoadedModel } from './loaded-model.ts'
import { readRequest, type GenerationRequest } from './request.ts'
import { Scheduler, type Place } from './scheduler.ts'

export type SequencePlace = Place<LlamaContextSequence>

/** Token usage of one request so far. */
export class RequestUsage {
  readonly #promptTokens: number
  readonly #perPrompt: number
  readonly #isCounted = new Set<number>()
  #cachedTokens = 0
  #completionTokens = 0

  constructor(job: Job) {
    this.#promptTokens = job.prompts.reduce((sum, prompt) => sum + prompt.length, 0)
    this.#perPrompt = job.choicesPerPrompt
  }

  /** A prompt, and its reused tokens, count once for all of its answers. */
  reused(choice: number, tokens: number): void {
    const prompt = Math.floor(choice / this.#perPrompt)
    if (!this.#isCounted.has(prompt)) this.#cachedTokens += tokens
    this.#isCounted.add(prompt)
  }

  generated(): void {
    this.#completionTokens += 1
  }

  get now(): Usage {
    return {
      promptTokens: this.#promptTokens,
      cachedTokens: this.#cachedTokens,
      completionTokens: this.#completionTokens,
    }
  }
}

export class ChatEngine {
  readonly model: string
  /** How many requests are processed at once. */
  readonly places: number
  readonly #metrics = new Metrics()
  readonly #loaded: LoadedModel
  readonly #scheduler: Scheduler<LlamaContextSequence>
  readonly #counters: ReturnType<typeof declareCounters>

  constructor(model: string, loaded: LoadedModel, queueLimit: number) {
    this.model = model
    this.places = loaded.sequences.length
    this.#loaded = loaded
    this.#scheduler = new Scheduler(loaded.sequences, queueLimit)
    this.#counters = declareCounters(this.#metrics)
    const processing = this.#metrics.gauge('llamacpp:requests_processing', 'Requests being processed')
    const deferred = this.#metrics.gauge('llamacpp:requests_deferred', 'Requests waiting in the queue')
    this.#metrics.collect(() => {
      processing.set(this.#scheduler.processing)
      deferred.set(this.#scheduler.deferred)
    })
  }

  metricsText(): Promise<string> {
    return this.#metrics.text()
  }

  readRequest(kind: 'chat' | 'completion', body: unknown): Result<GenerationRequest> {
    return readRequest(kind, body, { model: this.model, vocabularySize: this.#loaded.vocabulary.size })
  }

  prepare(request: GenerationRequest): Promise<Result<Job>> {
    return prepareJob(this.#loaded, request)
  }

  /** Resolves with undefined if `signal` is aborted first. */
  enter(job: Job, signal: AbortSignal): Result<Promise<SequencePlace | undefined>> {
    return this.#scheduler.enter(job.prompts[0] ?? [], signal)
  }

  generate(
    place: SequencePlace,
    job: Job,
    how: { readonly choice: number; readonly usage: RequestUsage; readonly signal: AbortSignal },
  ): AsyncGenerator<AnswerPiece, FinishReason | undefined> {
    const { choice, usage, signal } = how
    const tally: Tally = {
      reused: (tokens) => {
        usage.reused(choice, tokens)
        this.#counters.reused.add({}, tokens)
      },
      evaluated: (tokens) => this.#counters.prompted.add({}, tokens),
      generated: () => {
        usage.generated()
        this.#counters.predicted.add()
      },
    }
    const prompt = job.prompts[Math.floor(choice / job.choicesPerPrompt)] ?? []
    return generateAnswer(this.#loaded, { sequence: place.sequence, job, prompt, choice, tally, signal })
  }
}

function declareCounters(metrics: Metrics) {
  const counters = {
    prompted: metrics.counter('llamacpp:prompt_tokens_total', 'Prompt tokens evaluated'),
    predicted: metrics.counter('llamacpp:tokens_predicted_total', 'Tokens generated'),
    reused: metrics.counter('berth_engine_prefix_tokens_reused_total', 'Prompt tokens reused from earlier requests'),
  }
  for (const counter of Object.values(counters)) counter.add({}, 0)
  return counters
}
