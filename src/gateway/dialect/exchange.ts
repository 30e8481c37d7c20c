/**
 * A chat or completion from admission to its end. However it ends (answered, cut by the client, broken by the engine,
 * failed before the first byte), exactly one record is written before the client sees the end: a client with an answer
 * has paid for it, and a client without one has not.
 */
import type { Clock } from '../../base/instant.ts'
import { zeroUsd } from '../../base/money.ts'
import type { Failure } from '../../contract/result.ts'
import { costOf, noUnits, type InferenceUnits } from '../../domain/inference.ts'
import type { InferenceRecord } from '../../domain/inference-record.ts'
import type { Admitted } from '../money/admission.ts'
import type { Call, Reply } from '../call.ts'
import type { Deployment } from '../catalog.ts'
import type { AnswerForm, AnswerStream, StreamError } from './answer-form.ts'
import { explainFailure, explainRefusal } from '../failure.ts'
import type { EndedCall, Meter } from '../money/meter.ts'
import type {
  Dispatcher,
  UpstreamCall,
  UpstreamFailure,
  UpstreamHandle,
  UpstreamHead,
  UpstreamSink,
} from '../upstream/upstream-call.ts'
import { findUsage, parseObject, type EngineUsage } from './usage.ts'

/** Longer plain answers are refused. */
const MAX_ANSWER_BYTES = 33_554_432
const MAX_ERROR_BYTES = 65_536
/** Estimate for engines that report no usage. */
const BYTES_PER_TOKEN = 4
const MAX_KEPT_BODY_BYTES = 1_048_576
/** How long a client may leave a stream unread when nobody else waits. */
const STALLED_MS = 60_000
/** Between signs of life to a client that waits for its model to start. */
const KEEP_ALIVE_MS = 5_000

export interface ExchangePorts {
  readonly dispatcher: Dispatcher
  readonly meter: Pick<Meter, 'finish'>
  readonly clock: Clock
  /** Called for every finished request. */
  readonly ended: (call: EndedCall) => void
  /** Failures for the operator. */
  readonly warn: (failure: EngineFailure) => void
}

export interface EngineFailure {
  readonly requestId: string
  readonly accountId: string
  readonly model: string
  readonly deployment: string | undefined
  readonly detail: string
}

export interface ChatCall extends Call {
  readonly answer: AnswerForm
  readonly stream: boolean
  readonly includeUsage: boolean
  /** Size of the request, for engines that report no usage. */
  readonly promptBytes: number
}

export class ChatExchange implements UpstreamSink {
  readonly #call: ChatCall
  readonly #ports: ExchangePorts
  readonly #reply: Reply
  readonly #admitted: Admitted
  readonly #startedAt: number
  #handle: UpstreamHandle | undefined
  #deployment: Deployment | undefined
  #status = 0
  #stream: AnswerStream | undefined
  /** A part of the answer was sent. */
  #begun = false
  /** The head of the stream was sent, perhaps only with signs of life while the request waits. */
  #isOpen = false
  #waiting: NodeJS.Timeout | undefined
  #body = ''
  /** The tokens of an answer that has ended. */
  #answerTokens: number | undefined
  #firstByteMs: number | null = null
  #kept = ''
  #stalled: NodeJS.Timeout | undefined
  #isUnread = false
  #over = false

  constructor(call: ChatCall, ports: ExchangePorts, reply: Reply, admitted: Admitted) {
    this.#call = call
    this.#ports = ports
    this.#reply = reply
    this.#admitted = admitted
    this.#startedAt = performance.now()
  }

  start(upstream: UpstreamCall): void {
    this.#reply.onGone(() => this.#gone())
    this.#handle = this.#ports.dispatcher.send(upstream, this)
    this.#reply.onDrain(() => this.#drained())
    if (this.#call.stream && this.#call.model.startsOnDemand !== undefined) {
      this.#waiting = setInterval(() => this.#keepAlive(), KEEP_ALIVE_MS)
    }
  }

  /** A model that starts takes minutes; clients and proxies close a connection that stays silent. */
  #keepAlive(): void {
    if (this.#begun || this.#over) return clearInterval(this.#waiting)
    if (this.#handle?.ahead() === undefined) return
    const { waiting } = this.#call.answer
    if (this.#isOpen) this.#reply.write(waiting)
    else this.#reply.startStream(waiting)
    this.#isOpen = true
  }

  head(head: UpstreamHead): void {
    this.#deployment = head.deployment
    this.#status = head.status
    this.#firstByteMs = this.#elapsedMs()
    const isEvents = head.headers.get('content-type')?.startsWith('text/event-stream') ?? false
    if (head.status !== 200) return
    if (this.#call.stream !== isEvents) return this.#breakOff('the engine answered in the wrong form')
    if (isEvents) this.#stream = this.#openStream()
  }

  #openStream(): AnswerStream {
    return this.#call.answer.openStream(this.#call, this.#ports.clock.now())
  }

  data(bytes: Buffer): void {
    if (this.#over) return
    try {
      this.#take(bytes)
    } catch (error) {
      this.#breakOff(`the engine's answer could not be read: ${String(error)}`)
    }
  }

  #take(bytes: Buffer): void {
    if (this.#stream === undefined) return this.#collect(bytes)
    const text = this.#stream.push(bytes)
    if (text === undefined) return this.#breakOff('the engine sent no valid event stream')
    if (text !== '') this.#pass(text)
    const { failed, done } = this.#stream.progress
    if (failed !== undefined) return this.#breakOff(`the engine reported: ${failed}`)
    if (done) this.#endStream()
  }

  end(): void {
    if (this.#over) return
    try {
      this.#takeEnd()
    } catch (error) {
      this.#breakOff(`the engine's answer could not be read: ${String(error)}`)
    }
  }

  #takeEnd(): void {
    if (this.#stream !== undefined) {
      if (this.#stream.progress.finished) return this.#endStream()
      return this.#breakOff("the engine's stream ended early")
    }
    if (this.#status === 200) return this.#answerPlain()
    this.#refuse(explainRefusal(this.#status, this.#body, this.#call.model), this.#status)
  }

  fail(failure: UpstreamFailure): void {
    if (this.#over) return
    this.#deployment = failure.deployment ?? this.#deployment
    this.#warn(failure.detail)
    if (this.#begun) return this.#breakStream(failure.kind)
    this.#refuse(explainFailure(failure, this.#call.model.name), 503)
  }

  outputTokens(): number {
    return this.#answerTokens ?? this.#stream?.progress.events ?? 0
  }

  /** Ends like a client that went away. */
  unread(): void {
    this.#isUnread = true
    this.#reply.abort()
  }

  #collect(bytes: Buffer): void {
    this.#body += bytes.toString('latin1')
    const most = this.#status === 200 ? MAX_ANSWER_BYTES : MAX_ERROR_BYTES
    if (this.#body.length <= most) return
    if (this.#status === 200) return this.#breakOff("the engine's answer is too long")
    this.#handle?.cancel()
    this.end()
  }

  #pass(text: string): void {
    if (this.#call.caller.account.keepsBodies && this.#kept.length < MAX_KEPT_BODY_BYTES) this.#kept += text
    const hasRoom = this.#isOpen ? this.#reply.write(text) : this.#reply.startStream(text)
    this.#isOpen = true
    this.#begun = true
    if (hasRoom) return
    this.#handle?.pause()
    // A client that does not read must not keep its slot forever.
    this.#stalled ??= setTimeout(() => this.unread(), STALLED_MS)
  }

  #drained(): void {
    clearTimeout(this.#stalled)
    this.#stalled = undefined
    this.#handle?.resume()
  }

  #endStream(): void {
    const stream = this.#stream
    if (stream === undefined) return
    const usage = this.#usage()
    this.#finish('answered', 200, null, usage, () => {
      this.#deliver(stream.end(usage), (last) => {
        if (!this.#isOpen) this.#reply.startStream('')
        this.#reply.endStream(last)
      })
    })
  }

  #answerPlain(): void {
    const text = this.#body
    const value = parseObject(text)
    if (value === undefined || !Array.isArray(value['choices'])) {
      return this.#breakOff('the engine sent no valid chat answer')
    }
    const usage = findUsage(text, 0)?.usage ?? this.#counted(Math.ceil(textBytes(value['choices']) / BYTES_PER_TOKEN))
    const body = this.#call.answer.write(this.#call, { text, value, usage }, this.#ports.clock.now())
    this.#kept = body
    this.#finish('answered', 200, null, usage, () => {
      this.#deliver(body, (last) => this.#reply.send(200, 'application/json; charset=utf-8', last))
    })
  }

  /** Sends the end of a complete answer, after the form has done with it what it must. */
  #deliver(last: string, send: (last: string) => void): void {
    const { beforeEnd } = this.#call.answer
    if (beforeEnd === undefined) return send(last)
    beforeEnd(last).then(send, (error: unknown) => {
      this.#warn(`the end of the answer could not be sent: ${String(error)}`)
      this.#reply.abort()
    })
  }

  /** The engine violated the protocol. */
  #breakOff(detail: string): void {
    this.#warn(detail)
    this.#handle?.cancel()
    if (this.#begun) return this.#breakStream('broken')
    this.#refuse(
      explainFailure(
        { kind: 'broken', detail, deployment: this.#deployment, retryAfterMs: undefined },
        this.#call.model.name,
      ),
      503,
    )
  }

  /** During a stream: the client gets an error event and pays for the tokens it got. */
  #breakStream(kind: UpstreamFailure['kind']): void {
    const message = 'The engine failed during the answer. You are charged for the tokens sent so far.'
    const code = kind === 'timeout' ? 'engine_timeout' : 'engine_failed'
    const usage = this.#usage()
    this.#finish('broken', 200, code, usage, () => this.#endWith({ message, code, usage }))
  }

  #endWith(error: StreamError): void {
    const stream = this.#stream ?? this.#openStream()
    this.#reply.endStream(stream.fail(error))
  }

  #refuse(failure: Failure, status: number): void {
    const reason = failure.reason ?? failure.kind
    this.#finish('failed', status, reason, undefined, () => {
      if (this.#isOpen) return this.#endWith({ message: failure.message, code: reason })
      this.#reply.refuse(failure)
    })
  }

  #gone(): void {
    if (this.#over) return
    this.#handle?.cancel()
    // Before the first event, nothing was generated.
    const usage = this.#begun ? this.#usage() : undefined
    this.#finish('cut', 499, this.#isUnread ? 'answer_unread' : 'client_disconnected', usage, () => {})
  }

  #usage(): EngineUsage {
    const progress = this.#stream?.progress
    const events = progress?.events ?? 0
    const reported = progress?.usage
    if (reported === undefined) return this.#counted(events)
    // During several choices, an engine may report only the current one.
    return progress?.finished === true
      ? reported
      : { ...reported, outputTokens: Math.max(reported.outputTokens, events) }
  }

  #counted(outputTokens: number): EngineUsage {
    return { inputTokens: Math.ceil(this.#call.promptBytes / BYTES_PER_TOKEN), cachedTokens: 0, outputTokens }
  }

  #finish(
    outcome: InferenceRecord['outcome'],
    status: number,
    reason: string | null,
    usage: EngineUsage | undefined,
    then: () => void,
  ): void {
    if (this.#over) return
    this.#over = true
    clearTimeout(this.#stalled)
    clearInterval(this.#waiting)
    const { caller, model, requestId, traceId, operation } = this.#call
    const units: InferenceUnits = usage === undefined ? noUnits : unitsOf(usage)
    this.#answerTokens = units.outputTokens
    const totalMs = this.#elapsedMs()
    const record: EndedCall = {
      requestId,
      accountId: caller.accountId,
      apiKeyId: caller.keyId,
      operation,
      model: model.name,
      deployment: this.#deployment?.id ?? null,
      at: this.#ports.clock.now(),
      status,
      outcome,
      reason,
      streamed: this.#call.stream,
      units,
      cost: usage === undefined ? zeroUsd : costOf(model.prices, units),
      firstByteMs: this.#firstByteMs,
      totalMs,
      traceId,
      requestBody: this.#call.bodyText,
      responseBody: caller.account.keepsBodies ? Buffer.from(this.#kept, 'latin1').toString('utf8') : null,
    }
    this.#ports.ended(record)
    this.#admitted.leave(units.inputTokens + units.outputTokens)
    this.#ports.meter.finish(this.#admitted.reservation, record, then)
  }

  #elapsedMs(): number {
    return Math.round(performance.now() - this.#startedAt)
  }

  #warn(detail: string): void {
    const { requestId, model, caller } = this.#call
    const deployment = this.#deployment?.id
    this.#ports.warn({ requestId, accountId: caller.accountId, model: model.name, deployment, detail })
  }
}

function unitsOf({ inputTokens, cachedTokens, outputTokens }: EngineUsage): InferenceUnits {
  return { inputTokens, cachedTokens, outputTokens, pixelSteps: 0, characters: 0, soundMs: 0 }
}

function textBytes(choices: readonly unknown[]): number {
  return (choices as ReadonlyArray<{ message?: { content?: unknown }; text?: unknown } | null>)
    .map((choice) => choice?.message?.content ?? choice?.text)
    .reduce<number>((sum, text) => sum + (typeof text === 'string' ? text.length : 0), 0)
}
