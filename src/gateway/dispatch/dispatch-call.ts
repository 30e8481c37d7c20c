/**
 * One call to an engine: it waits for a slot, is sent, and is retried elsewhere as long as no part of an answer was
 * passed on. However it ends, its slot is released exactly once, and the breaker learns of faults that may be the
 * engine's, but not of cancelled calls.
 */
import type { Deployment } from '../catalog.ts'
import { classOf, isAnswer, kindOf, readRetryAfter } from './engine-answer.ts'
import type { DispatchModel, UnreadCall, WaitingCall } from './dispatch-model.ts'
import type { Account, Line, Waiter } from './fair-queue.ts'
import type { FaultClass, Target } from './routing-target.ts'
import { chooseTarget, type Refusal, type Tried } from './routing.ts'
import type { UpstreamCall, UpstreamFailure, UpstreamHandle, UpstreamSink } from '../upstream/upstream-call.ts'
import type { AnswerSink, Connection, FaultKind } from '../upstream/connection.ts'
import type { ResponseHead } from '../upstream/response-head.ts'

const MAX_ATTEMPTS = 3
/** How much of an error body is read, and for how long. */
const MAX_ERROR_BODY_BYTES = 4_096
const ERROR_BODY_MS = 1_000
const UNREACHABLE_RETRY_AFTER_MS = 1_000
/** How long an engine that answers 429 gets no calls. */
const PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 60_000

/** `ending`: the sink is about to be called. */
type State = 'waiting' | 'sent' | 'answering' | 'ending' | 'over'

export class DispatchedCall implements UpstreamHandle, AnswerSink, WaitingCall, UnreadCall, Tried {
  connection: Connection | undefined
  queuedAt = 0
  waitsSince = 0
  cost = 0
  unreadSince = 0
  line: Line | undefined
  before: Waiter | undefined
  after: Waiter | undefined
  readonly call: UpstreamCall
  readonly #model: DispatchModel
  readonly #sink: UpstreamSink
  #state: State = 'waiting'
  #target: Target | undefined
  #deployment: Deployment | undefined
  #account: Account | undefined
  /**
   * The prompt tokens that the engine still has to compute for this call, and for all its calls when this one was sent.
   */
  #uncached = 0
  #toCompute = 0
  /** The output tokens charged to the account so far. */
  #charged = 0
  #isTrial = false
  #isStream = false
  #sentAt = 0
  #attempts: Target[] | undefined
  /** Targets that could not be reached, so that no engine has seen the request. */
  #unreached: Target[] | undefined
  /** The time since which the call waits for any replica to be reachable. */
  #heldSince: number | undefined
  /** Targets that timed out with this call: a retry would take as long again. */
  #lost: Target[] | undefined
  #failure: UpstreamFailure | undefined
  /** The head of an error answer. Its body is read for the reason and not passed on. */
  #errorHead: ResponseHead | undefined
  #errorBody = ''

  constructor(model: DispatchModel, call: UpstreamCall, sink: UpstreamSink) {
    this.#model = model
    this.call = call
    this.#sink = sink
  }

  get accountId(): string {
    return this.call.accountId
  }

  get isBatch(): boolean {
    return this.call.isBatch
  }

  get isWaiting(): boolean {
    return this.#state === 'waiting'
  }

  get tried(): Tried {
    return this
  }

  get isEmpty(): boolean {
    return this.#attempts === undefined && this.#unreached === undefined
  }

  timesOf(target: Target): number {
    if (this.isEmpty) return 0
    if (this.#lost?.includes(target) === true) return Infinity
    return countOf(this.#attempts, target) + countOf(this.#unreached, target)
  }

  /** Finds a slot, now or later. */
  route(now: number): void {
    const attempts = this.#attempts?.length ?? 0
    const { onlyIdle = false } = this.call
    const mayHold = this.#model.startsOnDemand && !onlyIdle
    if (attempts + (this.#unreached?.length ?? 0) >= MAX_ATTEMPTS)
      return mayHold && attempts < MAX_ATTEMPTS ? this.#hold(now) : this.#giveUp()
    if (onlyIdle && this.#model.group.hasWaiting) return this.#refuseBusy()
    const choice = chooseTarget(this.#model.targets, this.#model.memory, this.call, this, now)
    if (choice === 'wait') return onlyIdle ? this.#refuseBusy() : this.#wait(now)
    if ('kind' in choice) {
      // An engine that answered, or was too slow, would do the same again.
      const isOver =
        choice.kind === 'overloaded' || this.#failure?.kind === 'status' || this.#failure?.kind === 'timeout'
      return mayHold && !isOver ? this.#hold(now) : this.#rejectCall(choice)
    }
    this.start(choice, now)
  }

  start(target: Target, now: number): void {
    const { deployment } = target
    const request = this.call.request(deployment)
    const head = target.headOf(request)
    this.#state = 'sent'
    this.#target = target
    this.#deployment = deployment
    this.#sentAt = now
    target.begin()
    this.#account = this.#model.begin(this.call)
    this.#charged = 0
    target.requests += 1
    target.turn += 1 / deployment.weight
    target.lastUsedAt = now
    this.#isTrial = target.breaker.enter()
    if (this.#model.targets.length > 1) this.#rememberPrefix(target)
    target.pool.send(this, { head, body: request.body, limits: deployment })
  }

  #rememberPrefix(target: Target): void {
    const { memory } = this.#model
    this.#uncached = Math.max(0, this.call.promptTokens - memory.knownTokens(this.call, target))
    target.slots.uncached += this.#uncached
    this.#toCompute = target.slots.uncached
    memory.keep(this.call, target)
  }

  /** `isFirstToken`: the first token has just come, which shows how fast the engine computes prompts. */
  #promptDone(target: Target, isFirstToken: boolean): void {
    if (this.#toCompute === 0) return
    target.slots.uncached -= this.#uncached
    if (isFirstToken) target.slots.notePrefill(this.#toCompute, performance.now() - this.#sentAt)
    this.#uncached = 0
    this.#toCompute = 0
  }

  cancel(): void {
    const target = this.#target
    if (this.#state === 'waiting') this.#model.leave(this)
    if (this.#state === 'sent' || this.#state === 'answering') {
      this.connection?.cancel()
      if (target !== undefined) target.cancels += 1
      this.#release()
      this.#state = 'over'
      return this.#model.serve(performance.now())
    }
    this.#state = 'over'
  }

  pause(): void {
    if (this.#state !== 'answering') return
    this.connection?.pause()
    this.unreadSince = performance.now()
    this.#model.holdBack(this)
  }

  resume(): void {
    this.#model.resumed(this)
    this.connection?.resume()
  }

  cutUnread(): void {
    this.#model.resumed(this)
    this.#sink.unread?.()
  }

  ahead(): number | undefined {
    return this.#state === 'waiting' ? this.#model.ahead(this) : undefined
  }

  onHead(head: ResponseHead): void {
    const target = this.#target
    const deployment = this.#deployment
    if (target === undefined || deployment === undefined) return
    if (!isAnswer(head.status)) {
      this.#errorHead = head
      this.connection?.limitRest(ERROR_BODY_MS)
      return
    }
    if (this.#isTrial) {
      this.#isTrial = false
      target.breaker.answered()
    }
    this.#isStream = head.headers.get('content-type')?.startsWith('text/event-stream') === true
    this.#state = 'answering'
    this.#sink.head({ status: head.status, headers: head.headers, deployment })
  }

  onData(bytes: Buffer): void {
    if (this.#errorHead === undefined) {
      const account = this.#account
      if (this.#target !== undefined) {
        this.#target.slots.output += bytes.length
        if (this.#toCompute > 0) this.#promptDone(this.#target, this.#isStream)
      }
      this.#sink.data(bytes)
      if (account !== undefined) this.#charge(account)
      return
    }
    this.#errorBody += bytes.toString('latin1', 0, MAX_ERROR_BODY_BYTES - this.#errorBody.length)
    if (this.#errorBody.length < MAX_ERROR_BODY_BYTES) return
    this.connection?.cancel()
    this.#onError(this.#errorHead)
  }

  onEnd(): void {
    if (this.#errorHead !== undefined) return this.#onError(this.#errorHead)
    const now = performance.now()
    const [target, account] = [this.#target, this.#account]
    target?.breaker.succeeded()
    this.#release()
    this.#state = 'over'
    this.#sink.end()
    // The tokens of an unstreamed answer are known now.
    if (account !== undefined) this.#charge(account)
    this.#model.note(now - this.#sentAt, this.#charged)
    target?.slots.note(this.call.promptTokens + this.#charged)
    this.#model.serve(now)
  }

  onFault(kind: FaultKind, detail: string): void {
    if (this.#state === 'over') return
    // The part of the error body read so far is enough.
    if (this.#errorHead !== undefined) return this.#onError(this.#errorHead)
    const wasAnswering = this.#state === 'answering'
    const failure = this.#failureOf(kind, detail)
    // An engine that is still answering when the total time is over is not at fault.
    const isFault = !(wasAnswering && kind === 'total')
    if (kind === 'first_byte_timeout' || kind === 'total') this.#giveUpOn(this.#target)
    this.#fault(isFault ? classOf(kind) : undefined, failure, wasAnswering)
  }

  /** Ends without an answer. The sink is called later, since it may not have its handle yet. */
  refuse(kind: UpstreamFailure['kind'], detail: string, retryAfterMs?: number): void {
    this.#end({ kind, detail, deployment: this.#deployment, retryAfterMs })
  }

  #refuseBusy(): void {
    this.refuse('overloaded', 'no slot is idle')
  }

  /**
   * Holds the call, since a replica is about to start or to come back. The time limit is counted from the first wait.
   */
  #hold(now: number): void {
    const isRetried = !this.isEmpty
    this.#unreached = undefined
    this.#wait(now, (this.#heldSince ??= now), isRetried)
  }

  #wait(now: number, limitFrom = now, isRetried = !this.isEmpty): void {
    this.#state = 'waiting'
    this.queuedAt = limitFrom
    this.waitsSince = now
    this.cost = this.#model.costOf(this.call)
    const refusal = this.#model.wait(this, isRetried)
    if (refusal !== undefined) this.refuse('queue_full', refusal.detail, refusal.retryAfterMs)
  }

  #rejectCall({ kind, detail, retryAfterMs, target }: Refusal): void {
    const last = this.#failure
    if (last !== undefined && kind !== 'overloaded') return this.#giveUp()
    this.#end({
      kind,
      detail: last?.detail ?? detail,
      deployment: last?.deployment ?? target?.deployment,
      retryAfterMs,
    })
  }

  #giveUp(): void {
    if (this.#failure !== undefined) this.#end(this.#failure)
  }

  #end(failure: UpstreamFailure): void {
    this.#state = 'ending'
    queueMicrotask(() => {
      if (this.#state === 'over') return
      this.#state = 'over'
      this.#sink.fail(failure)
    })
  }

  #onError(head: ResponseHead): void {
    const detail = `status ${head.status}: ${Buffer.from(this.#errorBody, 'latin1').toString().trim()}`
    this.#errorHead = undefined
    this.#errorBody = ''
    if (this.#target !== undefined && (head.status === 429 || head.status === 503)) this.#target.slots.refusals += 1
    const failure = { detail, deployment: this.#deployment, retryAfterMs: undefined }
    if (head.status !== 408 && head.status !== 429) {
      return this.#fault('status', { ...failure, kind: 'status' }, false)
    }
    if (this.#isTrial) this.#target?.breaker.answered()
    this.#isTrial = false
    if (head.status === 408) return this.#fault(undefined, { ...failure, kind: 'timeout' }, false)
    const pauseMs = Math.min(readRetryAfter(head.headers) ?? PAUSE_MS, LONGEST_PAUSE_MS)
    if (this.#target !== undefined) {
      this.#target.refusals += 1
      this.#target.pausedUntil = Math.max(this.#target.pausedUntil, performance.now() + pauseMs)
    }
    this.#fault(undefined, { ...failure, kind: 'overloaded', retryAfterMs: pauseMs }, false)
  }

  /** `faultClass` undefined: the breaker does not count the fault. */
  #fault(faultClass: FaultClass | undefined, failure: UpstreamFailure, isFinal: boolean): void {
    const target = this.#target
    const now = performance.now()
    if (target !== undefined) {
      if (faultClass !== undefined) {
        target.faults[faultClass] += 1
        target.breaker.faulted(this.#isTrial, faultClass === 'connect', now)
        this.#isTrial = false
      }
      if (faultClass === 'connect') (this.#unreached ??= []).push(target)
      else (this.#attempts ??= []).push(target)
    }
    this.#release()
    if (target?.breaker.needsCheck(now) === true) target.onSuspect?.()
    this.#failure = failure
    if (isFinal) {
      this.#state = 'over'
      this.#sink.fail(failure)
    } else this.route(now)
    this.#model.serve(now)
  }

  #charge(account: Account): void {
    const tokens = this.#sink.outputTokens?.() ?? 0
    if (tokens <= this.#charged) return
    this.#model.charge(account, tokens - this.#charged)
    this.#charged = tokens
  }

  #giveUpOn(target: Target | undefined): void {
    if (target !== undefined) (this.#lost ??= []).push(target)
  }

  #release(): void {
    const target = this.#target
    if (target === undefined) return
    this.#target = undefined
    this.#promptDone(target, false)
    target.end()
    if (this.#account !== undefined) this.#model.end(this.#account)
    this.#account = undefined
    this.#model.resumed(this)
    if (this.#isTrial) target.breaker.released(performance.now())
    this.#isTrial = false
  }

  #failureOf(kind: FaultKind, detail: string): UpstreamFailure {
    const failureKind = kindOf(kind)
    const retryAfterMs = failureKind === 'unreachable' ? UNREACHABLE_RETRY_AFTER_MS : undefined
    return { kind: failureKind, detail, deployment: this.#deployment, retryAfterMs }
  }
}

function countOf(targets: readonly Target[] | undefined, target: Target): number {
  return targets?.filter((one) => one === target).length ?? 0
}
