/**
 * The stream of an engine as a stream of ours. Bytes are handled as latin1 text, one character a byte, which loses
 * nothing and is what string search and socket writes are fastest at. What is done to it: our id and our name of the
 * model in place of the engine's, usage read and taken out unless the client asked for it, the closing `[DONE]` kept
 * back until the request is in the books. Whole events in, whole events out, and one write a read.
 */
import { findUsage, parseObject, type EngineUsage } from './usage.ts'

/** An event longer than this is no event of a chat. */
export const MAX_EVENT_BYTES = 1_048_576

export interface StreamOptions {
  readonly id: string
  readonly model: string
  readonly object: 'chat.completion.chunk' | 'text_completion'
  readonly created: number
  /** The client asked for it. */
  readonly includeUsage: boolean
}

export class ChatStream {
  readonly #options: StreamOptions
  #carry = ''
  #needles: Array<readonly [from: string, to: string]> | undefined
  #usage: EngineUsage | undefined
  #events = 0
  #finished = false
  #done = false
  #usageSent = false
  #failed: string | undefined

  constructor(options: StreamOptions) {
    this.#options = options
  }

  /** The engine has said that it is done. What comes after is not passed on. */
  get done(): boolean {
    return this.#done
  }

  /** Every choice has ended by itself, or the engine has said so. */
  get finished(): boolean {
    return this.#finished || this.#done
  }

  /** What the engine has said instead of going on. undefined: nothing. */
  get failed(): string | undefined {
    return this.#failed
  }

  /** undefined: the engine has told nothing so far. */
  get usage(): EngineUsage | undefined {
    return this.#usage
  }

  /** How many events with something said were passed on: about one a token. */
  get events(): number {
    return Math.max(0, this.#events)
  }

  /** What to pass on; `undefined`: this is no stream of events, or an event has no end. */
  push(bytes: Buffer): string | undefined {
    let text = this.#carry + bytes.toString('latin1')
    if (text.includes('\r')) text = text.replaceAll('\r\n', '\n')
    // The space is a custom, not a rule.
    if (text.startsWith('data:') && text.charCodeAt(5) !== 0x20) text = text.replaceAll(/^data:(?=\S)/gm, 'data: ')
    const end = text.lastIndexOf('\n\n')
    if (end === -1) {
      this.#carry = text
      return text.length > MAX_EVENT_BYTES ? undefined : ''
    }
    this.#carry = text.slice(end + 2)
    if (this.#carry.length > MAX_EVENT_BYTES) return undefined
    return this.#done ? '' : this.#rewrite(end + 2 === text.length ? text : text.slice(0, end + 2))
  }

  #rewrite(events: string): string | undefined {
    let text = events
    const done = findDone(text)
    if (done !== -1) {
      this.#done = true
      text = text.slice(0, done)
      if (text === '') return ''
    }
    const error = findError(text)
    if (error !== -1) {
      this.#failed = text.slice(error + 6, text.indexOf('\n', error + 6)).slice(0, 500)
      text = text.slice(0, error)
      if (text === '') return ''
    }
    let opening = ''
    if (this.#needles === undefined) {
      const begun = this.#begin(text)
      if (begun === undefined) return undefined
      opening = begun
    }
    if (text.startsWith('data: {')) this.#events += 1
    for (let at = text.indexOf('\ndata: {'); at !== -1; at = text.indexOf('\ndata: {', at + 8)) this.#events += 1
    if (!this.#finished && text.includes('"finish_reason"')) {
      this.#finished = /"finish_reason"\s*:\s*"/.test(text)
      // The event that says so says nothing else.
      if (this.#finished) this.#events -= 1
    }
    for (const [from, to] of this.#needles ?? []) text = text.replaceAll(from, to)
    return opening + (text.includes('"usage"') ? this.#takeUsage(text) : text)
  }

  /** Learns the engine's id and name of the model from its first event, and opens the answer as the convention has it. */
  #begin(text: string): string | undefined {
    const from = text.indexOf('data: ')
    if (from === -1) return /^(:[^\n]*\n+)*$/.test(text) ? '' : undefined
    const line = text.slice(from + 6, text.indexOf('\n', from))
    const event = parseObject(line)
    if (event === undefined || !Array.isArray(event['choices'])) return undefined
    this.#needles = []
    this.#learn(line, 'id', event['id'], this.#options.id)
    this.#learn(line, 'model', event['model'], this.#options.model)
    const [choice] = event['choices'] as Array<{ delta?: { role?: unknown; content?: unknown } }>
    const isOpened = this.#options.object === 'text_completion' || choice?.delta?.role !== undefined
    // An opening is no token yet.
    if (choice?.delta?.role !== undefined && !choice.delta.content) this.#events -= 1
    return isOpened ? '' : this.event([{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }])
  }

  #learn(line: string, name: string, value: unknown, ours: string): void {
    if (typeof value !== 'string' || value === ours) return
    const raw = findMember(line, name, value)
    if (raw !== undefined) this.#needles?.push([raw, `"${name}":${asLatin1(JSON.stringify(ours))}`])
  }

  /** Reads usage, and takes it out of every event but the last one of a client that asked for it. */
  #takeUsage(text: string): string {
    let kept = ''
    for (const event of text.split('\n\n')) {
      if (event === '') continue
      kept += this.#takeUsageOf(event)
    }
    return kept
  }

  #takeUsageOf(event: string): string {
    const found = findUsage(event, 0)
    if (found !== undefined) this.#usage = found.usage
    const isLast = found !== undefined && /"choices"\s*:\s*\[\s*\]/.test(event)
    if (isLast) {
      this.#events -= 1
      this.#usageSent = this.#options.includeUsage
      return this.#options.includeUsage ? `${event}\n\n` : ''
    }
    const bare =
      found === undefined ? event.replace(/,\s*"usage"\s*:\s*null/, '') : cutMember(event, found.start, found.end)
    return `${bare}\n\n`
  }

  /** What ends a good stream, with the usage that an engine has told in another place or not at all. */
  closing(usage: EngineUsage): string {
    if (!this.#options.includeUsage || this.#usageSent) return 'data: [DONE]\n\n'
    const told = {
      prompt_tokens: usage.inputTokens,
      completion_tokens: usage.outputTokens,
      total_tokens: usage.inputTokens + usage.outputTokens,
    }
    return `${this.event([], { usage: told })}data: [DONE]\n\n`
  }

  /** An event of our own, in the form of this stream. */
  event(choices: readonly unknown[], more: Readonly<Record<string, unknown>> = {}): string {
    const { id, object, created, model } = this.#options
    return asLatin1(`data: ${JSON.stringify({ id, object, created, model, choices, ...more })}\n\n`)
  }
}

const DONE = 'data: [DONE]'

/** Where the line stands that ends a stream. The same words inside an event are something that a model has said. */
function findDone(text: string): number {
  if (text.startsWith(DONE)) return 0
  const before = text.indexOf(`\n${DONE}`)
  return before === -1 ? -1 : before + 1
}

/**
 * A member with this name and value as it stands in a JSON text. Others of the name are passed by: engines that write
 * the choices first have ids of tool calls before the id of the answer.
 */
export function findMember(text: string, name: string, value: string): string | undefined {
  for (const [raw, json = ''] of text.matchAll(new RegExp(`"${name}"\\s*:\\s*("(?:[^"\\\\]|\\\\.)*")`, 'g'))) {
    if (JSON.parse(json) === value) return raw
  }
  return undefined
}

/** An event that is an error and nothing else. */
function findError(text: string): number {
  if (text.startsWith('data: {"error"')) return 0
  const at = text.indexOf('\ndata: {"error"')
  return at === -1 ? -1 : at + 1
}

/** Takes a member out of an object, with the comma that stood before or after it. */
function cutMember(text: string, start: number, end: number): string {
  const before = text.slice(0, start).trimEnd()
  if (before.endsWith(',')) return before.slice(0, -1) + text.slice(end)
  return before + text.slice(end).trimStart().replace(/^,/, '')
}

/** Text of ours, as the bytes that will be sent for it. */
export function asLatin1(text: string): string {
  // oxlint-disable-next-line no-control-regex -- everything beyond ASCII is what is looked for
  return /^[\x00-\x7f]*$/.test(text) ? text : Buffer.from(text, 'utf8').toString('latin1')
}
