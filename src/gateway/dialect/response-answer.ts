/**
 * An answer as a response: events of its items, one open at a time, and the whole response at the end. It is stored
 * before its last event goes out, so that whoever has that event can read and continue it on every server.
 */
import { SECOND_MS, type Clock, type Instant } from '../../base/instant.ts'
import { responseErrorCode } from '../../contract/response-error.ts'
import type { AnsweredCall, AnswerForm, StreamError } from './answer-form.ts'
import type { JsonObject } from './chat-body.ts'
import type { ChatDelta, ChatEnding } from './chat-delta.ts'
import { asLatin1 } from './chat-stream.ts'
import { PartSequence, type PartStep } from './part-sequence.ts'
import {
  ResponseEvents,
  writeEvent,
  type OutputItem,
  type Piece,
  type ResponseEventsOptions,
} from './response-events.ts'
import { WAITING_COMMENT } from './rewritten-answer.ts'
import { translateAnswers, type AnswerWriter } from './translated-answer.ts'
import type { EngineUsage } from './usage.ts'

export interface ResponseAnswerOptions extends Omit<ResponseEventsOptions, 'seed'> {
  /** Members of the response that repeat the request. */
  readonly echo: JsonObject
  readonly clock: Clock
  /** Stores the finished response; false: it could not. Absent: the client did not ask for it. */
  readonly save?: ((response: FinishedResponse) => Promise<boolean>) | undefined
}

export interface FinishedResponse {
  readonly id: string
  /** The response as JSON. */
  readonly text: string
  readonly pieces: ReadonlyArray<readonly Piece[]>
}

function responseId(requestId: string): string {
  return `resp_${requestId.slice(4)}`
}

export function responseAnswer(options: ResponseAnswerOptions): AnswerForm {
  let writer: ResponseWriter | undefined
  const { save } = options
  return translateAnswers({
    waiting: WAITING_COMMENT,
    openWriter: (call, now) => (writer = new ResponseWriter(call, now, options)),
    ...(save === undefined
      ? {}
      : {
          beforeEnd: async (last) => {
            const finished = writer?.finished
            if (finished === undefined || (await save(finished))) return last
            // The client has paid for the answer: it is told that it cannot continue it.
            return asLatin1(writer?.endUnstored() ?? '')
          },
        }),
  })
}

class ResponseWriter implements AnswerWriter {
  readonly #id: string
  readonly #call: AnsweredCall
  readonly #now: Instant
  readonly #options: ResponseAnswerOptions
  readonly #parts = new PartSequence()
  readonly #events: ResponseEvents
  /** The end of the JSON of each response, from the comma on. It may have many tools. */
  readonly #echo: string
  /** Writes the last text of a complete answer again, with its end. */
  #writeEnd: ((isStored: boolean) => string) | undefined
  finished: FinishedResponse | undefined

  constructor(call: AnsweredCall, now: Instant, options: ResponseAnswerOptions) {
    this.#id = responseId(call.requestId)
    this.#call = call
    this.#now = now
    this.#options = options
    this.#events = new ResponseEvents({ ...options, seed: call.requestId.slice(4) })
    this.#echo = `,${JSON.stringify(options.echo).slice(1)}`
  }

  open(): string {
    const response = this.#response({ status: 'in_progress', output: [], usage: null }, this.#isStoring())
    const members = `"response":${response}`
    return this.#events.event('response.created', members) + this.#events.event('response.in_progress', members)
  }

  add(delta: ChatDelta): string {
    return this.#take(this.#parts.add(delta))
  }

  end(ending: ChatEnding): string {
    const closing = this.#closeAll(ending)
    const finish = this.#finish(ending)
    const sequence = this.#events.next()
    this.#writeEnd = (isStored) =>
      closing + writeEvent(`response.${statusOf(ending)}`, sequence, `"response":${finish(isStored)}`)
    return this.#writeEnd(this.#isStoring())
  }

  write(ending: ChatEnding): string {
    this.#closeAll(ending)
    this.#writeEnd = this.#finish(ending)
    return this.#writeEnd(this.#isStoring())
  }

  endUnstored(): string {
    return this.#writeEnd?.(false) ?? ''
  }

  fail({ message, code, usage }: StreamError): string {
    const response = this.#response(
      {
        status: 'failed',
        error: { code: responseErrorCode(code), message },
        output: this.#events.output,
        usage: usage === undefined ? null : usageOf(usage, 0),
      },
      false,
    )
    return this.#events.event('response.failed', `"response":${response}`)
  }

  #isStoring(): boolean {
    return this.#options.save !== undefined
  }

  #take(steps: readonly PartStep[]): string {
    return steps.map((step) => this.#events.take(step)).join('')
  }

  #closeAll(ending: ChatEnding): string {
    const events = this.#take(this.#parts.end())
    return events + this.#events.close(statusOf(ending))
  }

  #finish(ending: ChatEnding): (isStored: boolean) => string {
    const status = statusOf(ending)
    const state: ResponseState = {
      status,
      completed_at: status === 'completed' ? secondsOf(this.#options.clock.now()) : null,
      incomplete_details: status === 'completed' ? null : { reason: incompleteReason(ending) },
      output: this.#events.output,
      usage: usageOf(ending.usage, ending.reasoningTokens),
    }
    const { pieces } = this.#events
    if (this.#isStoring()) this.finished = { id: this.#id, text: this.#response(state, true), pieces }
    return (isStored) => this.#response(state, isStored)
  }

  #response(state: ResponseState, isStored: boolean): string {
    const members = {
      id: this.#id,
      object: 'response',
      created_at: secondsOf(this.#now),
      completed_at: null,
      error: null,
      incomplete_details: null,
      model: this.#call.model.name,
      ...state,
      store: isStored,
    }
    return JSON.stringify(members).slice(0, -1) + this.#echo
  }
}

interface ResponseState {
  readonly status: 'in_progress' | 'completed' | 'incomplete' | 'failed'
  readonly output: readonly OutputItem[]
  readonly usage: object | null
  readonly completed_at?: number | null
  readonly error?: object
  readonly incomplete_details?: object | null
}

function statusOf({ finishReason }: ChatEnding): 'completed' | 'incomplete' {
  return finishReason === 'length' || finishReason === 'content_filter' ? 'incomplete' : 'completed'
}

function incompleteReason({ finishReason }: ChatEnding): string {
  return finishReason === 'length' ? 'max_output_tokens' : 'content_filter'
}

/** Clients fail on missing inner numbers. */
function usageOf({ inputTokens, cachedTokens, outputTokens }: EngineUsage, reasoningTokens: number): object {
  return {
    input_tokens: inputTokens,
    input_tokens_details: { cached_tokens: Math.min(cachedTokens, inputTokens), cache_write_tokens: 0 },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: inputTokens + outputTokens,
  }
}

function secondsOf(at: Instant): number {
  return Math.floor(at / SECOND_MS)
}
