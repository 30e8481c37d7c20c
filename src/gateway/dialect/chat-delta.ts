/**
 * An engine's chat answer in a neutral form, for dialects that are translated. A `ChatReader` reads the events of one
 * stream, or one plain answer, and gives the same deltas for both: reasoning, text, refusal, calls and their arguments.
 * It takes what engines differ in: reasoning as `reasoning_content` or `reasoning`; calls without id or index, all with
 * index 0, or with arguments as an object; `tool_calls: []`; empty texts. An empty part gives no delta.
 */
import type { EngineUsage } from './usage.ts'

export type ChatDelta =
  | { readonly kind: 'reasoning'; readonly text: string }
  | { readonly kind: 'text'; readonly text: string; readonly logprobs: readonly unknown[] }
  | { readonly kind: 'refusal'; readonly text: string }
  /** Begins a call. Its arguments follow, perhaps between those of others. Calls are numbered from 0 by 1. */
  | { readonly kind: 'call'; readonly call: number; readonly id: string; readonly name: string }
  | { readonly kind: 'arguments'; readonly call: number; readonly text: string }

/** How a complete answer ended. */
export interface ChatEnding {
  /** `stop`, `length`, `tool_calls`, `content_filter`, or what else the engine says. */
  readonly finishReason: string
  /** The stop sequence that ended the answer. undefined: none, or the engine does not say. */
  readonly stopSequence: string | undefined
  readonly usage: EngineUsage
  /** Part of the output tokens. */
  readonly reasoningTokens: number
}

type Members = Readonly<Record<string, unknown>>

interface PendingCall {
  readonly id: string | undefined
  /** undefined: the name of the call has not arrived yet. */
  number: number | undefined
  arguments: string
}

/** More calls than this in one answer are a fault of the engine. */
const MAX_CALLS = 1_024

export class ChatReader {
  readonly #seed: string
  readonly #byIndex = new Map<number, PendingCall>()
  #calls = 0
  #finishReason: string | undefined
  #stopSequence: string | undefined
  #reasoningTokens = 0

  /** `seed` makes ids for calls that have none. */
  constructor(seed: string) {
    this.#seed = seed
  }

  /** undefined: the answer has not ended. */
  get finishReason(): string | undefined {
    return this.#finishReason
  }

  /** Reads one event, or a whole plain answer. Throws if no dialect could express it. */
  read(event: Members): ChatDelta[] {
    const [choice] = listOf(event['choices'])
    this.#readUsage(membersOf(event['usage']))
    if (choice === undefined) return []
    const message = membersOf(choice['delta'] ?? choice['message'])
    const deltas: ChatDelta[] = []
    const reasoning = textOf(message['reasoning_content']) || textOf(message['reasoning'])
    if (reasoning !== '') deltas.push({ kind: 'reasoning', text: reasoning })
    const text = textOf(message['content'])
    if (text !== '') deltas.push({ kind: 'text', text, logprobs: listOf(membersOf(choice['logprobs'])['content']) })
    const refusal = textOf(message['refusal'])
    if (refusal !== '') deltas.push({ kind: 'refusal', text: refusal })
    for (const [position, part] of listOf(message['tool_calls']).entries()) this.#readCall(part, position, deltas)
    this.#readEnding(choice)
    return deltas
  }

  end(usage: EngineUsage): ChatEnding {
    return {
      finishReason: this.#finishReason ?? 'stop',
      stopSequence: this.#stopSequence,
      usage,
      reasoningTokens: Math.min(this.#reasoningTokens, usage.outputTokens),
    }
  }

  #readUsage(usage: Members): void {
    const tokens = membersOf(usage['completion_tokens_details'])['reasoning_tokens'] ?? usage['reasoning_tokens']
    if (Number.isSafeInteger(tokens) && (tokens as number) >= 0) this.#reasoningTokens = tokens as number
  }

  #readEnding(choice: Members): void {
    const reason = textOf(choice['finish_reason'])
    if (reason === '') return
    this.#finishReason = reason
    this.#stopSequence = textOf(choice['stop_reason']) || textOf(choice['matched_stop']) || undefined
    for (const { number } of this.#byIndex.values()) {
      if (number === undefined) throw new Error('a call has no name')
    }
  }

  #readCall(part: Members, position: number, deltas: ChatDelta[]): void {
    const id = textOf(part['id']) || undefined
    const details = membersOf(part['function'])
    const name = textOf(details['name'])
    const index = Number.isSafeInteger(part['index']) ? (part['index'] as number) : position
    const call = this.#callAt(index, id, name)
    const text = argumentsOf(details['arguments'])
    if (call.number === undefined && name !== '') {
      call.number = this.#calls++
      deltas.push({ kind: 'call', call: call.number, id: call.id ?? `call_${this.#seed}${call.number}`, name })
      call.arguments += text
      if (call.arguments !== '') deltas.push({ kind: 'arguments', call: call.number, text: call.arguments })
    } else if (call.number === undefined) {
      call.arguments += text
    } else if (text !== '') {
      deltas.push({ kind: 'arguments', call: call.number, text })
    }
  }

  /** Another id with a name at the same index is another call: some engines number none of theirs. */
  #callAt(index: number, id: string | undefined, name: string): PendingCall {
    const existingCall = this.#byIndex.get(index)
    const isOther = existingCall?.number !== undefined && id !== undefined && id !== existingCall.id && name !== ''
    if (existingCall !== undefined && !isOther) return existingCall
    if (this.#calls >= MAX_CALLS || this.#byIndex.size >= MAX_CALLS) throw new Error('too many calls')
    const call: PendingCall = { id, number: undefined, arguments: '' }
    this.#byIndex.set(index, call)
    return call
  }
}

function membersOf(value: unknown): Members {
  return typeof value === 'object' && value !== null ? (value as Members) : {}
}

function listOf(value: unknown): readonly Members[] {
  return Array.isArray(value) ? value.map(membersOf) : []
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function argumentsOf(value: unknown): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : textOf(value)
}
