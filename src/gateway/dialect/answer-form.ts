/** The form in which a client reads an answer. Texts are latin1, one character per byte. */
import type { Instant } from '../../base/instant.ts'
import type { EngineUsage } from './usage.ts'

export interface AnswerForm {
  /** Sent from time to time while the model starts: proxies close a connection that stays silent. */
  readonly waiting: string
  /** The body of a plain answer. It throws if the engine's answer cannot be expressed. */
  readonly write: (call: AnsweredCall, answer: EngineAnswer, now: Instant) => string
  readonly openStream: (call: AnsweredCall, now: Instant) => AnswerStream
  /**
   * Runs between the record of a complete answer and its end, which the client gets only afterwards: the last events of a
   * stream, or the plain answer. Gives the text to send. Absent: it is sent at once.
   */
  readonly beforeEnd?: (last: string) => Promise<string>
}

export interface AnsweredCall {
  readonly requestId: string
  readonly model: { readonly name: string; readonly contextTokens?: number | null }
  /** The client asked for usage at the end of a stream. */
  readonly includeUsage: boolean
}

/** A plain answer of an engine. It has `choices`. */
export interface EngineAnswer {
  readonly text: string
  /** The parsed text, whose strings are garbled beyond ASCII. */
  readonly value: Readonly<Record<string, unknown>>
  readonly usage: EngineUsage
}

/** One streamed answer: whole events in the client's form, made from an engine's events. */
export interface AnswerStream {
  readonly progress: EngineProgress
  /** The text to pass on. undefined: not an event stream, or an event without end. */
  readonly push: (bytes: Buffer) => string | undefined
  /** The last events of a complete answer. */
  readonly end: (usage: EngineUsage) => string
  /** The last events of an answer that fails, perhaps before its first event. */
  readonly fail: (error: StreamError) => string
}

/** The part of the answer that the engine has sent so far. */
export interface EngineProgress {
  /** The engine has sent its last event. */
  readonly done: boolean
  /** The answer is complete, even if the engine sends nothing more. */
  readonly finished: boolean
  /** The error event that the engine sent. undefined: none. */
  readonly failed: string | undefined
  /** undefined: the engine has reported none so far. */
  readonly usage: EngineUsage | undefined
  /** Content events: about one per token. */
  readonly events: number
}

/** A failure after the head of a stream was sent. */
export interface StreamError {
  readonly message: string
  readonly code: string
  /** The tokens that are charged. Absent: none. */
  readonly usage?: EngineUsage
}
