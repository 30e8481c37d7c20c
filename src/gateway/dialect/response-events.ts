/**
 * The events of a response and its output items, written from the steps of its parts. A stored response is streamed again
 * through the same writer, with the pieces in which it came, so its events are the same to the byte.
 */
import type { PartStep } from './part-sequence.ts'
import { emptyInput, type ToolNames } from './response-tool.ts'
import { parseObject } from './usage.ts'

type ItemStatus = 'in_progress' | 'completed' | 'incomplete'

interface ReasoningItem {
  readonly id: string
  readonly type: 'reasoning'
  readonly summary: readonly []
  content: TextPart[]
  encrypted_content?: string
  status: ItemStatus
}

interface MessageItem {
  readonly id: string
  readonly type: 'message'
  readonly role: 'assistant'
  content: TextPart[]
  status: ItemStatus
}

interface FunctionItem {
  readonly id: string
  readonly type: 'function_call'
  readonly call_id: string
  readonly name: string
  readonly namespace?: string
  arguments: string
  status: ItemStatus
}

interface CustomItem {
  readonly id: string
  readonly type: 'custom_tool_call'
  readonly call_id: string
  readonly name: string
  readonly namespace?: string
  input: string
  status: ItemStatus
}

/** The length of a piece, and how many log probabilities came with it if any. */
export type Piece = number | readonly [length: number, logprobs: number]

export type OutputItem = ReasoningItem | MessageItem | FunctionItem | CustomItem

type TextPart =
  | { readonly type: 'reasoning_text'; text: string }
  | { readonly type: 'output_text'; text: string; readonly annotations: readonly []; readonly logprobs: unknown[] }
  | { readonly type: 'refusal'; refusal: string }

export interface ResponseEventsOptions {
  /** The part of item ids that identifies the request. */
  readonly seed: string
  readonly tools: ToolNames
  readonly showsLogprobs: boolean
  /** The encrypted form of the reasoning of an item. Absent: the client did not ask for it. */
  readonly seal?: ((text: string, at: number) => string) | undefined
}

const idPrefixes = { reasoning: 'rs', message: 'msg', function_call: 'fc', custom_tool_call: 'ctc' } as const

export class ResponseEvents {
  readonly output: OutputItem[] = []
  /** The pieces of each part, in order. */
  readonly pieces: Piece[][] = []
  readonly #options: ResponseEventsOptions
  #sequence = 0
  /** Whether the last item has not ended yet. */
  #isOpen = false
  /** The arguments of an open call. */
  #json = ''

  constructor(options: ResponseEventsOptions) {
    this.#options = options
  }

  /** The number of the next event. */
  next(): number {
    return this.#sequence++
  }

  event(type: string, members: string): string {
    return writeEvent(type, this.next(), members)
  }

  take(step: PartStep): string {
    switch (step.step) {
      case 'begin':
        this.pieces.push([])
        return this.#begin(step.part)
      case 'add':
        return this.#addPiece(step.text, this.#options.showsLogprobs ? step.logprobs : [])
      case 'end':
        return this.#endPart()
    }
  }

  /** Ends the last item. */
  close(status: ItemStatus): string {
    const item = this.output.at(-1)
    if (!this.#isOpen || item === undefined) return ''
    this.#isOpen = false
    item.status = status
    return this.#itemEvent('response.output_item.done', item)
  }

  #begin(part: Extract<PartStep, { step: 'begin' }>['part']): string {
    if (part.kind === 'call') {
      const item = this.#callItem(part)
      this.#json = ''
      return this.#open(item)
    }
    const type = part.kind === 'reasoning' ? 'reasoning' : 'message'
    const events =
      this.#isOpen && this.output.at(-1)?.type === type && type === 'message' ? '' : this.#open(this.#textItem(type))
    const { content } = this.output.at(-1) as ReasoningItem | MessageItem
    content.push(newPart(part.kind))
    return events + this.#partEvent('response.content_part.added', { part: content.at(-1) })
  }

  #open(item: OutputItem): string {
    const before = this.close('completed')
    this.output.push(item)
    this.#isOpen = true
    return before + this.#itemEvent('response.output_item.added', item)
  }

  #textItem(type: 'reasoning' | 'message'): ReasoningItem | MessageItem {
    const id = this.#newId(type)
    return type === 'reasoning'
      ? { id, type, summary: [], content: [], status: 'in_progress' }
      : { id, type, role: 'assistant', content: [], status: 'in_progress' }
  }

  #callItem({ id: callId, name }: { readonly id: string; readonly name: string }): FunctionItem | CustomItem {
    const tool = this.#options.tools.get(name)
    const call = {
      call_id: callId,
      name: tool?.name ?? name,
      ...(tool?.namespace === undefined ? {} : { namespace: tool.namespace }),
      status: 'in_progress' as const,
    }
    return tool?.kind === 'custom'
      ? { id: this.#newId('custom_tool_call'), type: 'custom_tool_call', ...call, input: '' }
      : { id: this.#newId('function_call'), type: 'function_call', ...call, arguments: '' }
  }

  #newId(type: OutputItem['type']): string {
    return `${idPrefixes[type]}_${this.#options.seed}${this.output.length}`
  }

  #addPiece(text: string, logprobs: readonly unknown[]): string {
    this.pieces.at(-1)?.push(logprobs.length === 0 ? text.length : [text.length, logprobs.length])
    return this.#add(text, logprobs)
  }

  #add(text: string, logprobs: readonly unknown[]): string {
    const item = this.output.at(-1)
    if (item?.type === 'function_call') {
      item.arguments += text
      return this.#callEvent('response.function_call_arguments.delta', { delta: text })
    }
    if (item?.type === 'custom_tool_call') {
      this.#json += text
      return ''
    }
    const part = item?.content.at(-1)
    switch (part?.type) {
      case 'reasoning_text':
        part.text += text
        return this.#partEvent('response.reasoning_text.delta', { delta: text })
      case 'output_text': {
        part.text += text
        part.logprobs.push(...logprobs)
        return this.#partEvent('response.output_text.delta', { delta: text, logprobs })
      }
      case 'refusal':
        part.refusal += text
        return this.#partEvent('response.refusal.delta', { delta: text })
      case undefined:
        throw new Error('a piece of a part that has not begun')
    }
  }

  #endPart(): string {
    const item = this.output.at(-1)
    if (item?.type === 'function_call') {
      // Clients parse the arguments; a call of a function without parameters may have none.
      const filled = item.arguments.trim() === '' ? this.#add(emptyInput, []) : ''
      const { arguments: callArguments, name } = item
      return filled + this.#callEvent('response.function_call_arguments.done', { arguments: callArguments, name })
    }
    if (item?.type === 'custom_tool_call') {
      item.input = inputOf(this.#json)
      const delta =
        item.input === '' ? '' : this.#callEvent('response.custom_tool_call_input.delta', { delta: item.input })
      return delta + this.#callEvent('response.custom_tool_call_input.done', { input: item.input })
    }
    const part = item?.content.at(-1)
    const done = (type: string, members: object): string =>
      this.#partEvent(type, members) + this.#partEvent('response.content_part.done', { part })
    switch (part?.type) {
      case 'reasoning_text':
        if (item?.type === 'reasoning') this.#seal(item, part.text)
        return done('response.reasoning_text.done', { text: part.text })
      case 'output_text':
        return done('response.output_text.done', { text: part.text, logprobs: part.logprobs })
      case 'refusal':
        return done('response.refusal.done', { refusal: part.refusal })
      case undefined:
        throw new Error('the end of a part that has not begun')
    }
  }

  #seal(item: ReasoningItem, text: string): void {
    const { seal } = this.#options
    if (seal !== undefined) item.encrypted_content = seal(text, this.output.length - 1)
  }

  #itemEvent(type: string, item: OutputItem): string {
    return this.#write(type, { output_index: this.output.length - 1, item })
  }

  #callEvent(type: string, members: object): string {
    return this.#write(type, { item_id: this.output.at(-1)?.id, output_index: this.output.length - 1, ...members })
  }

  #partEvent(type: string, members: object): string {
    const item = this.output.at(-1) as ReasoningItem | MessageItem
    return this.#callEvent(type, { content_index: item.content.length - 1, ...members })
  }

  #write(type: string, members: object): string {
    return this.event(type, JSON.stringify(members).slice(1, -1))
  }
}

/** `members` are JSON without braces. */
export function writeEvent(type: string, sequence: number, members: string): string {
  return `event: ${type}\ndata: {"type":"${type}","sequence_number":${sequence},${members}}\n\n`
}

function newPart(kind: 'reasoning' | 'text' | 'refusal'): TextPart {
  if (kind === 'reasoning') return { type: 'reasoning_text', text: '' }
  return kind === 'text'
    ? { type: 'output_text', text: '', annotations: [], logprobs: [] }
    : { type: 'refusal', refusal: '' }
}

/** Models call a custom tool as a function with the field `input`. Any other text is taken as the input itself. */
function inputOf(json: string): string {
  const input = parseObject(json)?.['input']
  return typeof input === 'string' ? input : json
}
