/** A call whose complete answer is collected: every call except chats. Engines may report progress meanwhile. */
import { EventBody, type MediaProgress } from './event-body.ts'
import type { Deployment } from '../catalog.ts'
import type { Dispatcher, UpstreamCall, UpstreamFailure, UpstreamHead } from './upstream-call.ts'

/** How often a waiting call reports its place in the queue. */
const QUEUE_CHECK_MS = 1_000

export interface Collected {
  readonly head: UpstreamHead
  readonly body: Buffer
  readonly firstByteMs: number
}

export type CollectFailure =
  | UpstreamFailure
  /** The client has disconnected. */
  | { readonly kind: 'gone'; readonly deployment: Deployment | undefined }

type Outcome = { ok: true; value: Collected } | { ok: false; failure: CollectFailure }

export interface CollectOptions {
  readonly maxBytes: number
  /** Aborts when the client has disconnected. */
  readonly signal: AbortSignal
  /** Absent: no progress is reported. */
  readonly onProgress?: OnProgress | undefined
  /** Called with a function that resumes the engine, to be called when the client reads again. */
  readonly onDrain?: ((resume: () => void) => void) | undefined
}

/** Returns false if the client's buffer is full; the engine then waits until the client reads again. */
export type OnProgress = (progress: MediaProgress) => unknown

export function collect(dispatcher: Dispatcher, call: UpstreamCall, options: CollectOptions): Promise<Outcome> {
  return new Promise((resolve) => new Collector(options, resolve).start(dispatcher, call))
}

class Collector {
  readonly #options: CollectOptions
  readonly #resolve: (outcome: Outcome) => void
  readonly #startedAt = performance.now()
  readonly #chunks: Buffer[] = []
  readonly #gone = (): void => this.#leave()
  #handle: ReturnType<Dispatcher['send']> | undefined
  #queueTimer: NodeJS.Timeout | undefined
  #ahead: number | undefined
  #bytes = 0
  #head: UpstreamHead | undefined
  #events: EventBody | undefined
  #firstByteMs = 0

  constructor(options: CollectOptions, resolve: (outcome: Outcome) => void) {
    this.#options = options
    this.#resolve = resolve
  }

  start(dispatcher: Dispatcher, call: UpstreamCall): void {
    const { signal, onProgress } = this.#options
    signal.addEventListener('abort', this.#gone, { once: true })
    this.#handle = dispatcher.send(call, {
      head: (head) => this.#begin(head),
      data: (bytes) => this.#take(bytes),
      end: () => this.#end(),
      fail: (failure) => {
        // An answer that is complete counts, however its connection ends.
        if (this.#events?.answer !== undefined) this.#end()
        else this.#settle({ ok: false, failure })
      },
    })
    if (signal.aborted) return this.#leave()
    if (onProgress === undefined) return
    this.#reportQueue(onProgress)
    this.#queueTimer = setInterval(() => this.#reportQueue(onProgress), QUEUE_CHECK_MS)
  }

  #reportQueue(onProgress: OnProgress): void {
    const ahead = this.#handle?.ahead()
    if (ahead === undefined || ahead === this.#ahead) return
    this.#ahead = ahead
    onProgress({ type: 'queued', ahead })
  }

  #begin(head: UpstreamHead): void {
    clearInterval(this.#queueTimer)
    this.#head = head
    this.#firstByteMs = Math.round(performance.now() - this.#startedAt)
    const isEvents = head.headers.get('content-type')?.startsWith('text/event-stream') ?? false
    if (head.status !== 200 || !isEvents) return
    this.#options.onDrain?.(() => this.#handle?.resume())
    this.#events = new EventBody((progress) => {
      // Parts that are passed on need no memory here.
      if (progress.type === 'audio' || progress.type === 'partial') this.#bytes = 0
      if (this.#options.onProgress?.(progress) === false) this.#handle?.pause()
    })
  }

  #take(bytes: Buffer): void {
    this.#bytes += bytes.length
    if (this.#bytes > this.#options.maxBytes) return this.#breakOff("the engine's answer is too long")
    if (this.#events === undefined) this.#chunks.push(Buffer.from(bytes))
    else this.#events.push(bytes)
  }

  #end(): void {
    if (this.#head === undefined) return this.#breakOff('the engine closed without an answer')
    const answer = this.#events === undefined ? { body: Buffer.concat(this.#chunks) } : this.#events.answer
    if (answer === undefined) return this.#breakOff("the engine's stream ended early")
    const { body, ...status } = answer
    this.#settle({ ok: true, value: { head: { ...this.#head, ...status }, body, firstByteMs: this.#firstByteMs } })
  }

  #breakOff(detail: string): void {
    this.#handle?.cancel()
    const failure = { kind: 'broken' as const, detail, deployment: this.#head?.deployment, retryAfterMs: undefined }
    this.#settle({ ok: false, failure })
  }

  #leave(): void {
    this.#handle?.cancel()
    this.#settle({ ok: false, failure: { kind: 'gone', deployment: this.#head?.deployment } })
  }

  #settle(outcome: Outcome): void {
    clearInterval(this.#queueTimer)
    this.#options.signal.removeEventListener('abort', this.#gone)
    this.#resolve(outcome)
  }
}
