/**
 * The seam between those who answer customers and those who reach engines. A call is sent once or several times until
 * one engine has begun to answer; from `head` on it stays with that engine, and ends with exactly one `end` or `fail`.
 */
import type { Deployment, ServedModel } from './catalog.ts'

export interface UpstreamCall {
  readonly model: ServedModel
  /** Waiting calls are served in turn between accounts. */
  readonly accountId: string
  /** Asked before each attempt, since the body and path depend on the engine that was chosen. */
  readonly request: (deployment: Deployment) => UpstreamRequest
  /** Hashes of ever longer prefixes of the prompt, shortest first. Calls that share the longest ones go together. */
  readonly prefixes: readonly number[]
  /** Calls with the same hint go together. */
  readonly session: string | undefined
  /** Only deployments that can do it are asked. undefined: all of them. */
  readonly accepts?: (deployment: Deployment) => boolean
}

export interface UpstreamRequest {
  /** Of the operation: `/v1/chat/completions`. The deployment's `basePath` is put before it by who sends. */
  readonly path: string
  /** Complete lines, each with its CR LF, beside Host, Authorization, Content-Type and Content-Length. */
  readonly extraHeaders: string
  readonly contentType: string
  /** Large ones are sent without being joined. A text is latin1: one character a byte. */
  readonly body: ReadonlyArray<Uint8Array | string>
}

export interface UpstreamHead {
  readonly status: number
  /** Lower-case names; of a repeated header the last one. */
  readonly headers: ReadonlyMap<string, string>
  readonly deployment: Deployment
}

export interface UpstreamSink {
  head(head: UpstreamHead): void
  /** The bytes are only valid during the call. */
  data(bytes: Buffer): void
  end(): void
  fail(failure: UpstreamFailure): void
  /** Its client has read nothing for a while, and others wait for the place. For who pauses; it is to cancel. */
  unread?(): void
}

/**
 * no_deployment: the model has none in use.    overloaded: no place in time, or the queue is full, or engines said 429.
 * unreachable: no connection, or refused by the breaker.    timeout: no first byte, none for too long, or too long in all.
 * broken: the connection ended or the answer was no HTTP.    status: every engine answered 5xx.
 */
export interface UpstreamFailure {
  readonly kind: 'no_deployment' | 'overloaded' | 'unreachable' | 'timeout' | 'broken' | 'status'
  /** For the log and the operator, not for customers. */
  readonly detail: string
  readonly deployment: Deployment | undefined
  readonly retryAfterMs: number | undefined
}

export interface UpstreamHandle {
  /** The client is gone or has enough: the engine is told by closing its connection. No sink method is called after. */
  cancel(): void
  /** Back-pressure, once `head` was called. */
  pause(): void
  resume(): void
  /** How many calls come before this one, those that are worked on included. undefined: it does not wait for a place. */
  ahead(): number | undefined
}

export interface Dispatcher {
  /** No sink method is called before this has returned. */
  send(call: UpstreamCall, sink: UpstreamSink): UpstreamHandle
}
