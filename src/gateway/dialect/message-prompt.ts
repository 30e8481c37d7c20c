/**
 * The prompt of a Messages request as chat messages. A turn is everything between two answers of the model: results of
 * calls go first, since templates want them right after the calls, then texts and images. A system note inside the
 * conversation stays in its turn, as text of the user: hoisted to the front it would change the prompt from its first
 * token on, and no engine could reuse the prompt of the turn before.
 */
import type { Issue } from '../../base/issue.ts'
import { failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { JsonObject } from './chat-body.ts'
import { chatContent, TEXT_SEPARATOR, type ChatPart } from './chat-content.ts'

export interface MessagePrompt {
  readonly messages: readonly JsonObject[]
  /** Parts of vendors' own tools, and hints for vendors' caches. */
  readonly ignored: ReadonlySet<string>
}

type Path = Issue['path']
type Part = JsonObject & { readonly type: string }

/** A hash per request, which would make every prompt begin differently. */
const BILLING_HEADER = 'x-anthropic-billing-header'

export function readMessagePrompt(body: JsonObject): Result<MessagePrompt> {
  const prompt = new PromptReader()
  const refused = prompt.read(body)
  return refused ?? ok({ messages: prompt.messages(), ignored: prompt.ignored })
}

interface UserTurn {
  readonly role: 'user'
  readonly results: JsonObject[]
  readonly parts: ChatPart[]
}

interface AssistantTurn {
  readonly role: 'assistant'
  readonly calls: JsonObject[]
  text: string
  reasoning: string
}

class PromptReader {
  readonly ignored = new Set<string>()
  readonly #system: string[] = []
  readonly #turns: Array<UserTurn | AssistantTurn> = []
  readonly #callIds = new Set<string>()

  read(body: JsonObject): Failure | undefined {
    this.#readSystem(body['system'])
    const messages = body['messages'] as ReadonlyArray<{ role: string; content: string | Part[] }>
    for (const [at, { role, content }] of messages.entries()) {
      const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content
      if (role === 'system' && this.#turns.length === 0) {
        this.#readSystem(parts)
        continue
      }
      // A message without parts is a turn too.
      if (role === 'assistant') this.#assistant()
      else this.#user()
      for (const [place, part] of parts.entries()) {
        const path = ['messages', at, 'content', place]
        const refused = role === 'assistant' ? this.#readAnswer(part, path) : this.#readUser(part, path)
        if (refused !== undefined) return refused
      }
    }
    if (this.#turns.at(-1)?.role !== 'user') {
      return failField(['messages', messages.length - 1], 'not_supported', {
        feature: 'an answer that begins with a given text',
      })
    }
    return undefined
  }

  messages(): JsonObject[] {
    const system = this.#system.join(TEXT_SEPARATOR)
    return [...(system === '' ? [] : [{ role: 'system', content: system }]), ...this.#turns.flatMap(writeTurn)]
  }

  #readSystem(system: unknown): void {
    const parts = typeof system === 'string' ? [{ type: 'text', text: system }] : ((system ?? []) as readonly Part[])
    for (const part of parts) {
      this.#noteHints(part)
      const text = textOf(part)
      if (text !== '' && !text.startsWith(BILLING_HEADER)) this.#system.push(text)
    }
  }

  #noteHints(part: Part): void {
    if (part['cache_control'] !== undefined && part['cache_control'] !== null) this.ignored.add('cache_control')
  }

  #user(): UserTurn {
    const last = this.#turns.at(-1)
    if (last?.role === 'user') return last
    const turn: UserTurn = { role: 'user', results: [], parts: [] }
    this.#turns.push(turn)
    return turn
  }

  #assistant(): AssistantTurn {
    const last = this.#turns.at(-1)
    if (last?.role === 'assistant') return last
    const turn: AssistantTurn = { role: 'assistant', calls: [], text: '', reasoning: '' }
    this.#turns.push(turn)
    return turn
  }

  #readUser(part: Part, path: Path): Failure | undefined {
    this.#noteHints(part)
    if (part.type === 'tool_result') return this.#readResult(part, path)
    const read = this.#readContent(part, path)
    if ('ok' in read) return read
    this.#user().parts.push(...read)
    return undefined
  }

  #readAnswer(part: Part, path: Path): Failure | undefined {
    this.#noteHints(part)
    switch (part.type) {
      case 'text':
        this.#assistant().text += textOf(part)
        return undefined
      case 'thinking':
        this.#assistant().reasoning += part['thinking'] as string
        return undefined
      case 'tool_use': {
        const { id, name, input } = part as { id?: unknown; name?: unknown; input?: unknown }
        this.#callIds.add(id as string)
        this.#assistant().calls.push({
          id,
          type: 'function',
          function: { name, arguments: JSON.stringify(input ?? {}) },
        })
        return undefined
      }
      default:
        return this.#ignore(part, path)
    }
  }

  #readResult(part: Part, path: Path): Failure | undefined {
    const id = part['tool_use_id'] as string
    if (!this.#callIds.has(id)) {
      return failField([...path, 'tool_use_id'], 'invalid_value', {
        message: 'The result belongs to no call before it.',
      })
    }
    const turn = this.#user()
    const { content } = part
    const parts = Array.isArray(content) ? (content as readonly Part[]) : [{ type: 'text', text: content ?? '' }]
    const texts: string[] = []
    for (const [place, one] of parts.entries()) {
      const read = this.#readContent(one, [...path, 'content', place])
      if ('ok' in read) return read
      // Engines take images from users only.
      for (const each of read) {
        if (each.type === 'text') texts.push(each.text)
        else turn.parts.push(each)
      }
    }
    const text = texts.join(TEXT_SEPARATOR)
    turn.results.push({ role: 'tool', tool_call_id: id, content: part['is_error'] === true ? `Error: ${text}` : text })
    return undefined
  }

  #readContent(part: Part, path: Path): ChatPart[] | Failure {
    if (typeof part !== 'object' || part === null || typeof part.type !== 'string') {
      return failField(path, 'invalid_value', { message: 'A part must be an object with a type.' })
    }
    switch (part.type) {
      case 'text':
        return textOf(part) === '' ? [] : [{ type: 'text', text: textOf(part) }]
      case 'image':
        return readImage(part, path)
      case 'document':
        return this.#readDocument(part, path)
      case 'search_result':
        return this.#readList([{ type: 'text', text: titleOf(part) }, ...listOf(part['content'])], path)
      case 'tool_reference':
        return [{ type: 'text', text: String(part['tool_name']) }]
      default:
        return this.#ignore(part, path) ?? []
    }
  }

  #readDocument(part: Part, path: Path): ChatPart[] | Failure {
    const source = objectOf(part['source'])
    const title = { type: 'text', text: titleOf(part) }
    const field = source['type'] === 'text' ? 'data' : source['type'] === 'content' ? 'content' : undefined
    if (field === undefined) {
      return failField([...path, 'source'], 'not_supported', { feature: 'documents other than text' })
    }
    if (source[field] === undefined || source[field] === null) {
      return failField([...path, 'source', field], 'invalid_value', { message: `The document has no ${field}.` })
    }
    return this.#readList([title, ...listOf(source[field])], path)
  }

  #readList(parts: readonly Part[], path: Path): ChatPart[] | Failure {
    const all: ChatPart[] = []
    for (const part of parts) {
      const isPlain = part?.type === 'text' || part?.type === 'image'
      const read = isPlain ? this.#readContent(part, path) : refusePart(part, path)
      if ('ok' in read) return read
      all.push(...read)
    }
    return all
  }

  /** Parts that a vendor's own tools have left in the conversation mean nothing elsewhere. */
  #ignore(part: Part, path: Path): Failure | undefined {
    if (!/(^|_)tool_(use|result)$|^redacted_thinking$|^container_upload$|^compaction$/.test(part.type)) {
      return refusePart(part, path)
    }
    this.ignored.add(part.type)
    return undefined
  }
}

function refusePart(part: Part | null | undefined, path: Path): Failure {
  return failField([...path, 'type'], 'not_supported', { feature: `parts of type ${String(part?.type).slice(0, 100)}` })
}

function writeTurn(turn: UserTurn | AssistantTurn): JsonObject[] {
  if (turn.role === 'user') {
    const { results, parts } = turn
    if (parts.length === 0 && results.length > 0) return results
    return [...results, { role: 'user', content: chatContent(parts) }]
  }
  const { text, reasoning, calls } = turn
  return [
    {
      role: 'assistant',
      content: text === '' && calls.length > 0 ? null : text,
      ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    },
  ]
}

function readImage(part: Part, path: Path): ChatPart[] | Failure {
  const source = objectOf(part['source'])
  const { media_type: mediaType, data, url } = source as { media_type?: unknown; data?: unknown; url?: unknown }
  if (source['type'] === 'base64' && typeof data === 'string' && /^image\/[\w.+-]{1,40}$/.test(String(mediaType))) {
    return [{ type: 'image_url', image_url: { url: `data:${String(mediaType)};base64,${data}` } }]
  }
  if (source['type'] === 'url' && typeof url === 'string') return [{ type: 'image_url', image_url: { url } }]
  return failField([...path, 'source'], 'not_supported', { feature: 'images other than base64 and url' })
}

function objectOf(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null ? (value as JsonObject) : {}
}

function textOf(part: JsonObject): string {
  return typeof part['text'] === 'string' ? part['text'] : ''
}

function titleOf(part: JsonObject): string {
  return typeof part['title'] === 'string' ? part['title'] : ''
}

/** Nested content is a text or a list of parts. */
function listOf(content: unknown): readonly Part[] {
  if (Array.isArray(content)) return content as readonly Part[]
  return typeof content === 'string' ? [{ type: 'text', text: content }] : []
}
