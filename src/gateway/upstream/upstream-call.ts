/**
 * The interface between answering customers and calling engines. A call is sent once or several times until one engine
 * starts to answer; from `head` on it stays with that engine, and ends with exactly one `end` or `fail`.
 */
import type { Deployment, ServedModel } from '../catalog.ts'

export interface UpstreamCall {
  readonly model: ServedModel
  /** Waiting calls take turns by account. */
  readonly accountId: string
  /** Calls of class batch wait while other calls do. */
  readonly isBatch: boolean
  /** The call never waits: it gets an idle slot, or is refused as `overloaded`. Absent: false. */
  readonly onlyIdle?: boolean
  /** An estimate. 0: the work is not measured in tokens. */
  readonly promptTokens: number
  /** Called before each attempt, since the body and path depend on the engine. */
  readonly request: (deployment: Deployment) => UpstreamRequest
  /** Hashes of prompt prefixes, shortest first. Calls that share long prefixes are sent to the same engine. */
  readonly prefixes: readonly number[]
  /** The estimated tokens of each prefix. */
  readonly prefixTokens: readonly number[]
  /** Calls of one session are sent to the same engine. */
  readonly session: string | undefined
  /** Whether a deployment can serve the call. undefined: all can. */
  readonly accepts?: (deployment: Deployment) => boolean
}

export interface UpstreamRequest {
  /** Path of the operation, such as `/v1/chat/completions`; the sender prefixes the deployment's `basePath`. */
  readonly path: string
  /** Complete lines with CR LF, besides Host, Authorization, Content-Type and Content-Length. */
  readonly extraHeaders: string
  readonly contentType: string
  /** Large pieces are sent without being joined. Strings are latin1: one character per byte. */
  readonly body: ReadonlyArray<Uint8Array | string>
}

export interface UpstreamHead {
  readonly status: number
  /** Lower-case names; the last value of a repeated header. */
  readonly headers: ReadonlyMap<string, string>
  readonly deployment: Deployment
}

export interface UpstreamSink {
  head(head: UpstreamHead): void
  /** The bytes are only valid during the call. */
  data(bytes: Buffer): void
  end(): void
  fail(failure: UpstreamFailure): void
  /** The output tokens so far. Absent: answers are not measured in tokens. */
  outputTokens?(): number
  /** Called when the client has read nothing for a while and others wait for the slot: the call should be cancelled. */
  unread?(): void
}

/**
 * no_deployment: the model has none in use. queue_full: too many calls wait already. overloaded: no slot in time, or the
 * engines answered 429.
 * unreachable: no connection, or the breaker is open. timeout: no first byte, too long between bytes, or too long in
 * total. broken: the connection closed early, or the answer is not HTTP. status: every engine answered 5xx.
 */
export interface UpstreamFailure {
  readonly kind: 'no_deployment' | 'queue_full' | 'overloaded' | 'unreachable' | 'timeout' | 'broken' | 'status'
  /** For the log and the operator, not for customers. */
  readonly detail: string
  readonly deployment: Deployment | undefined
  readonly retryAfterMs: number | undefined
}

export interface UpstreamHandle {
  /** Closes the connection to the engine, because the client has disconnected. No sink method is called afterwards. */
  cancel(): void
  /** Stops reading from the engine. Allowed once `head` was called. */
  pause(): void
  resume(): void
  /** The number of calls before this one, including those in progress. undefined: the call does not wait. */
  ahead(): number | undefined
}

export interface Dispatcher {
  /** No sink method is called before this returns. */
  send(call: UpstreamCall, sink: UpstreamSink): UpstreamHandle
}
