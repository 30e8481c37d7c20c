/**
 * The items of a response as chat messages. Reasoning, texts and calls between two inputs are one turn of the model, and
 * one message. Whether a client replays its items, sends the reasoning sealed, or names the response that it continues,
 * the engine gets the same bytes, so that it can reuse the prompt of the turn before.
 */
import type { Issue } from '../../base/issue.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { JsonObject } from './chat-body.ts'
import { chatContent, TEXT_SEPARATOR, type ChatPart } from './chat-content.ts'
import { customArguments, emptyInput, flatName } from './response-tool.ts'

/** An item, and its place in the request for errors. */
export interface PlacedItem {
  readonly item: JsonObject
  readonly path: Issue['path']
}

export interface ItemPromptOptions {
  readonly instructions: unknown
  readonly items: readonly PlacedItem[]
  /** undefined: the text was changed, or belongs to another account. */
  readonly openReasoning: (sealed: string) => string | undefined
}

type Path = Issue['path']

/** Errors repeat no more of it. */
const MAX_TYPE_CHARS = 100

export function readItemPrompt(options: ItemPromptOptions): Result<readonly JsonObject[]> {
  const reader = new ItemReader(options)
  for (const { item, path } of options.items) {
    const refused = reader.read(item, path)
    if (refused !== undefined) return refused
  }
  return ok(reader.messages())
}

interface AssistantTurn {
  readonly role: 'assistant'
  readonly calls: JsonObject[]
  text: string
  reasoning: string
}

class ItemReader {
  readonly #options: ItemPromptOptions
  readonly #system: string[] = []
  readonly #turns: Array<JsonObject | AssistantTurn> = []
  readonly #callIds = new Set<string>()
  /** Images of results that follow each other come after all of them. */
  #images: ChatPart[] = []

  constructor(options: ItemPromptOptions) {
    this.#options = options
    const { instructions } = options
    if (typeof instructions === 'string' && instructions !== '') this.#system.push(instructions)
  }

  read(item: JsonObject, path: Path): Failure | undefined {
    const type = item['type'] ?? 'message'
    if (type !== 'function_call_output' && type !== 'custom_tool_call_output') this.#flushImages()
    switch (type) {
      case 'message':
        return this.#readMessage(item, path)
      case 'reasoning':
        return this.#readReasoning(item, path)
      case 'function_call':
      case 'custom_tool_call':
        return this.#readCall(item)
      case 'function_call_output':
      case 'custom_tool_call_output':
        return this.#readOutput(item, path)
      default:
        return failField([...path, 'type'], 'not_supported', { feature: `items of type ${typeText(type)}` })
    }
  }

  messages(): JsonObject[] {
    this.#flushImages()
    const system = this.#system.join(TEXT_SEPARATOR)
    const turns = this.#turns.map((turn) => ('calls' in turn ? writeTurn(turn as AssistantTurn) : turn))
    return [...(system === '' ? [] : [{ role: 'system', content: system }]), ...turns]
  }

  #readMessage({ role, content }: JsonObject, path: Path): Failure | undefined {
    const read = readContent(content, [...path, 'content'])
    if ('ok' in read) return read
    if (role === 'assistant') {
      this.#assistant().text += read.map((part) => (part.type === 'text' ? part.text : '')).join('')
    } else if (role === 'user') {
      this.#turns.push({ role, content: chatContent(read) })
    } else {
      const text = chatContent(read)
      // Before the conversation, all of it is one message: not every template takes two.
      if (this.#turns.length === 0 && typeof text === 'string') this.#system.push(text)
      else this.#turns.push({ role: 'system', content: text })
    }
    return undefined
  }

  #readReasoning({ encrypted_content: sealed, content, summary }: JsonObject, path: Path): Failure | undefined {
    const text =
      typeof sealed === 'string' && sealed !== ''
        ? this.#options.openReasoning(sealed)
        : textOf(content) || textOf(summary)
    if (text === undefined) return fail('bad_sealed_reasoning', { field: [...path, 'encrypted_content'] })
    this.#assistant().reasoning += text
    return undefined
  }

  #readCall(item: JsonObject): undefined {
    const { type, call_id: id, name, namespace, arguments: json, input } = item
    const callArguments =
      type === 'custom_tool_call' ? customArguments(input as string) : String(json).trim() || emptyInput
    const called = { name: flatName(name as string, namespace as string | undefined), arguments: callArguments }
    this.#callIds.add(id as string)
    this.#assistant().calls.push({ id, type: 'function', function: called })
    return undefined
  }

  #readOutput({ call_id: id, output }: JsonObject, path: Path): Failure | undefined {
    if (!this.#callIds.has(id as string)) {
      const message = 'The output belongs to no call before it.'
      return failField([...path, 'call_id'], 'invalid_value', { message })
    }
    const read = readContent(output, [...path, 'output'])
    if ('ok' in read) return read
    // Engines take images from users only.
    const texts = read.flatMap((part) => (part.type === 'text' ? [part.text] : []))
    this.#images.push(...read.filter((part) => part.type !== 'text'))
    this.#turns.push({ role: 'tool', tool_call_id: id, content: texts.join(TEXT_SEPARATOR) })
    return undefined
  }

  #flushImages(): void {
    if (this.#images.length > 0) this.#turns.push({ role: 'user', content: this.#images })
    this.#images = []
  }

  #assistant(): AssistantTurn {
    const last = this.#turns.at(-1)
    if (last !== undefined && 'calls' in last) return last as AssistantTurn
    const turn: AssistantTurn = { role: 'assistant', calls: [], text: '', reasoning: '' }
    this.#turns.push(turn)
    return turn
  }
}

function writeTurn({ text, reasoning, calls }: AssistantTurn): JsonObject {
  return {
    role: 'assistant',
    content: text === '' && calls.length > 0 ? null : text,
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  }
}

function readContent(content: unknown, path: Path): ChatPart[] | Failure {
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }]
  const parts: ChatPart[] = []
  for (const [at, part] of ((content ?? []) as readonly JsonObject[]).entries()) {
    const read = readPart(part, [...path, at])
    if ('ok' in read) return read
    parts.push(read)
  }
  return parts
}

function readPart(part: JsonObject, path: Path): ChatPart | Failure {
  const { type, image_url: url, detail } = part
  const field = type === 'refusal' ? 'refusal' : 'text'
  if (type === 'refusal' || type === 'input_text' || type === 'output_text' || type === 'text') {
    const text = part[field]
    if (typeof text === 'string') return { type: 'text', text }
    return failField([...path, field], 'invalid_value', { message: `A part of type ${type} needs a ${field}.` })
  }
  if (type === 'input_image' && typeof url === 'string') {
    return { type: 'image_url', image_url: { url, ...(typeof detail === 'string' ? { detail } : {}) } }
  }
  if (type === 'input_image') {
    return failField([...path, 'image_url'], 'not_supported', { feature: 'images other than image_url' })
  }
  return failField([...path, 'type'], 'not_supported', { feature: `parts of type ${typeText(type)}` })
}

function typeText(type: unknown): string {
  return (typeof type === 'string' ? type : 'none').slice(0, MAX_TYPE_CHARS)
}

function textOf(parts: unknown): string {
  if (!Array.isArray(parts)) return ''
  return (parts as readonly JsonObject[]).map(({ text }) => (typeof text === 'string' ? text : '')).join('')
}
