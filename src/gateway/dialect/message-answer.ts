/**
 * An answer as a message: blocks of thinking, text and calls, numbered from 0, of which only one is open at a time. A call
 * that begins while the arguments of another are incomplete is held back until the end. Clients parse the arguments of a
 * call when its block ends, so arguments that are no JSON object are an error of the engine and never an empty input.
 */
import { messageErrorType } from '../../contract/message-error.ts'
import type { AnsweredCall, AnswerForm, StreamError } from './answer-form.ts'
import type { ChatDelta, ChatEnding } from './chat-delta.ts'
import { translateAnswers, type AnswerWriter } from './translated-answer.ts'
import { parseObject } from './usage.ts'

export interface MessageAnswerOptions {
  /** The client asked for thinking. */
  readonly thinks: boolean
  readonly stops: readonly string[]
  readonly maxTokens: number
}

export function messageAnswer(options: MessageAnswerOptions): AnswerForm {
  return translateAnswers({
    waiting: event('ping', {}),
    openWriter: (call) => new MessageWriter(call, options),
  })
}

type Block =
  | { readonly type: 'thinking'; thinking: string; signature: string }
  | { readonly type: 'text'; text: string; readonly citations: null }
  | CallBlock

interface CallBlock {
  readonly type: 'tool_use'
  readonly id: string
  readonly name: string
  input: unknown
  readonly caller: { readonly type: 'direct' }
}

interface PendingCall {
  readonly block: CallBlock
  json: string
  state: 'waiting' | 'open' | 'closed'
}

class MessageWriter implements AnswerWriter {
  readonly #call: AnsweredCall
  readonly #options: MessageAnswerOptions
  readonly #content: Block[] = []
  readonly #calls: PendingCall[] = []
  /** Parts that came within the arguments of a call. */
  readonly #heldBack: ChatDelta[] = []
  /** The last block has not ended. */
  #isOpen = false
  #isRefusal = false

  constructor(call: AnsweredCall, options: MessageAnswerOptions) {
    this.#call = call
    this.#options = options
  }

  open(): string {
    const usage = usageOf({ inputTokens: 0, cachedTokens: 0, outputTokens: 0 }, 0)
    return event('message_start', { message: this.#message([], noEnd, usage) })
  }

  add(delta: ChatDelta): string {
    if (delta.kind !== 'call' && delta.kind !== 'arguments' && this.#isWithinCall()) {
      this.#heldBack.push(delta)
      return ''
    }
    switch (delta.kind) {
      case 'reasoning':
        return this.#options.thinks ? this.#addThinking(delta.text) : ''
      case 'refusal':
        this.#isRefusal = true
        return this.#addText(delta.text)
      case 'text':
        return this.#addText(delta.text)
      case 'call':
        return this.#beginCall(delta)
      case 'arguments':
        return this.#addArguments(delta.call, delta.text)
    }
  }

  end(ending: ChatEnding): string {
    let events: string
    try {
      events = this.#closeAll()
    } catch (error) {
      if (!(error instanceof BadArguments)) throw error
      return this.fail({ message: error.message, code: 'engine_failed' })
    }
    const usage = usageOf(ending.usage, ending.reasoningTokens)
    const delta = { ...this.#endOf(ending), container: null }
    return events + event('message_delta', { delta, usage }) + event('message_stop', {})
  }

  fail({ message, code }: StreamError): string {
    const error = { type: messageErrorType(code), message }
    return event('error', { error, request_id: this.#call.requestId })
  }

  write(ending: ChatEnding): string {
    this.#closeAll()
    const usage = usageOf(ending.usage, ending.reasoningTokens)
    return JSON.stringify(this.#message(this.#content, this.#endOf(ending), usage))
  }

  #message(content: readonly Block[], end: MessageEnd, usage: object): object {
    const { requestId, model } = this.#call
    return {
      id: `msg_${requestId.slice(4)}`,
      type: 'message',
      role: 'assistant',
      model: model.name,
      content,
      ...end,
      container: null,
      diagnostics: null,
      usage,
    }
  }

  #addThinking(text: string): string {
    const events = this.#isOpenAs('thinking') ? '' : this.#begin({ type: 'thinking', thinking: '', signature: '' })
    const block = this.#content.at(-1)
    if (block?.type === 'thinking') block.thinking += text
    return events + this.#delta({ type: 'thinking_delta', thinking: text })
  }

  #addText(text: string): string {
    const events = this.#isOpenAs('text') ? '' : this.#begin({ type: 'text', text: '', citations: null })
    const block = this.#content.at(-1)
    if (block?.type === 'text') block.text += text
    return events + this.#delta({ type: 'text_delta', text })
  }

  #isOpenAs(type: Block['type']): boolean {
    return this.#isOpen && this.#content.at(-1)?.type === type
  }

  #beginCall({ id, name }: { readonly id: string; readonly name: string }): string {
    const block: CallBlock = { type: 'tool_use', id, name, input: {}, caller: { type: 'direct' } }
    const call: PendingCall = { block, json: '', state: 'waiting' }
    this.#calls.push(call)
    const isNext = this.#calls.every((one) => one === call || one.state !== 'waiting') && !this.#isWithinCall()
    return isNext ? this.#openCall(call) : ''
  }

  /** The block of a call is open, and its arguments are incomplete. */
  #isWithinCall(): boolean {
    const call = this.#calls.find(({ state }) => state === 'open')
    return call !== undefined && parseObject(call.json) === undefined
  }

  #openCall(call: PendingCall): string {
    const begin = this.#begin(call.block)
    call.state = 'open'
    return call.json === '' ? begin : begin + this.#delta({ type: 'input_json_delta', partial_json: call.json })
  }

  #addArguments(number: number, text: string): string {
    const call = this.#calls[number]
    if (call === undefined) throw new Error('arguments of a call that has not begun')
    if (call.state === 'closed') {
      if (text.trim() === '') return ''
      throw new BadArguments()
    }
    call.json += text
    return call.state === 'open' ? this.#delta({ type: 'input_json_delta', partial_json: text }) : ''
  }

  #begin(block: Block): string {
    const before = this.#close()
    this.#content.push(block)
    this.#isOpen = true
    const { length } = this.#content
    return before + event('content_block_start', { index: length - 1, content_block: block })
  }

  #delta(delta: object): string {
    return event('content_block_delta', { index: this.#content.length - 1, delta })
  }

  #close(): string {
    const block = this.#content.at(-1)
    if (!this.#isOpen || block === undefined) return ''
    this.#isOpen = false
    let last = ''
    if (block.type === 'thinking') {
      block.signature = this.#call.requestId
      last = this.#delta({ type: 'signature_delta', signature: block.signature })
    }
    const call = this.#calls.find((one) => one.block === block)
    if (call !== undefined) endCall(call)
    return last + event('content_block_stop', { index: this.#content.length - 1 })
  }

  #closeAll(): string {
    let events = this.#close()
    for (const call of this.#calls) if (call.state === 'waiting') events += this.#openCall(call) + this.#close()
    for (const delta of this.#heldBack.splice(0)) events += this.add(delta)
    return events + this.#close()
  }

  #endOf({ finishReason, stopSequence, usage }: ChatEnding): MessageEnd {
    if (this.#isRefusal || finishReason === 'content_filter') {
      const details = { type: 'refusal', category: null, explanation: null }
      return { stop_reason: 'refusal', stop_sequence: null, stop_details: details }
    }
    const isStop = stopSequence !== undefined && this.#options.stops.includes(stopSequence)
    if (this.#calls.length > 0) return { ...noEnd, stop_reason: 'tool_use' }
    if (finishReason === 'length') return { ...noEnd, stop_reason: this.#lengthReason(usage) }
    return isStop
      ? { ...noEnd, stop_reason: 'stop_sequence', stop_sequence: stopSequence }
      : { ...noEnd, stop_reason: 'end_turn' }
  }

  /** The context may leave less than the client allows. */
  #lengthReason({ inputTokens, outputTokens }: ChatEnding['usage']): string {
    const { contextTokens } = this.#call.model
    const isFull = typeof contextTokens === 'number' && inputTokens + outputTokens >= contextTokens - 1
    return isFull && outputTokens < this.#options.maxTokens ? 'model_context_window_exceeded' : 'max_tokens'
  }
}

interface MessageEnd {
  readonly stop_reason: string | null
  readonly stop_sequence: string | null
  readonly stop_details: object | null
}

const noEnd: MessageEnd = { stop_reason: null, stop_sequence: null, stop_details: null }

class BadArguments extends Error {
  constructor() {
    super('The model called a tool with arguments that are not a JSON object. You are charged for the tokens sent.')
  }
}

function endCall(call: PendingCall): void {
  const input = parseObject(call.json)
  if (input === undefined) throw new BadArguments()
  call.block.input = input
  call.state = 'closed'
}

/** Input tokens exclude those that were cached, as Anthropic counts them. */
function usageOf({ inputTokens, cachedTokens, outputTokens }: ChatEnding['usage'], thinkingTokens: number): object {
  const cached = Math.min(cachedTokens, inputTokens)
  return {
    input_tokens: inputTokens - cached,
    cache_read_input_tokens: cached,
    cache_creation_input_tokens: 0,
    cache_creation: null,
    output_tokens: outputTokens,
    output_tokens_details: { thinking_tokens: thinkingTokens },
    server_tool_use: null,
    service_tier: null,
    inference_geo: null,
    speed: null,
  }
}

/** The name is a line of its own: SDKs skip events without it. */
function event(type: string, members: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`
}
