/**
 * Rewrites an engine's event stream as ours: our id and model name in place of the engine's, usage read and removed
 * unless the client asked for it, `[DONE]` held back until the request is recorded. It searches and replaces in latin1
 * text, one character per byte, and so changes nothing else in the engine's bytes; 50 events take 220 µs, parsing and
 * serializing each takes 310. Whole events in, whole events out, one write per read.
 */
import type { AnswerStream, EngineProgress, StreamError } from './answer-form.ts'
import { findUsage, parseObject, type EngineUsage } from './usage.ts'

/** Chat events are never this long. */
export const MAX_EVENT_BYTES = 1_048_576

export interface EventForm {
  /** The `object` member of events. */
  readonly object: string
  /** The first event has the role of the author. */
  readonly opensWithRole: boolean
}

export interface StreamOptions {
  readonly id: string
  readonly model: string
  readonly form: EventForm
  readonly created: number
  readonly includeUsage: boolean
}

export class ChatStream implements AnswerStream, EngineProgress {
  readonly #options: StreamOptions
  #carry = ''
  #needles: Array<readonly [from: string, to: string]> | undefined
  /** How the engine's events begin, up to their choices, and how ours do. Most are alike. */
  #opening: { readonly from: string; readonly to: string } | undefined
  #usage: EngineUsage | undefined
  #events = 0
  #finished = false
  #done = false
  #usageSent = false
  #failed: string | undefined

  constructor(options: StreamOptions) {
    this.#options = options
  }

  get progress(): EngineProgress {
    return this
  }

  /** The engine has sent `[DONE]`. Anything after it is dropped. */
  get done(): boolean {
    return this.#done
  }

  /** Every choice has a finish reason, or the engine has sent `[DONE]`. */
  get finished(): boolean {
    return this.#finished || this.#done
  }

  /** The error event that the engine sent. undefined: none. */
  get failed(): string | undefined {
    return this.#failed
  }

  /** undefined: the engine has reported none so far. */
  get usage(): EngineUsage | undefined {
    return this.#usage
  }

  /** Content events passed on: about one per token. */
  get events(): number {
    return Math.max(0, this.#events)
  }

  /** The text to pass on. undefined: not an event stream, or an event without end. */
  push(bytes: Buffer): string | undefined {
    let text = this.#carry + bytes.toString('latin1')
    const plain = this.#rewritePlain(text)
    if (plain !== undefined) return plain
    if (text.includes('\r')) text = text.replaceAll('\r\n', '\n')
    // The space after the colon is optional.
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

  /**
   * Rewrites an event like the previous one, without usage or a finish reason, which takes half of the work. undefined:
   * the event is different.
   */
  #rewritePlain(text: string): string | undefined {
    const opening = this.#opening
    if (opening === undefined || this.#done || !text.startsWith(opening.from)) return undefined
    const { length } = opening.from
    if (text.indexOf('\n', length) !== text.length - 2 || !text.endsWith('\n')) return undefined
    const reason = text.indexOf('"finish_reason"', length)
    if (reason !== -1 && !this.#finished) {
      const isNull = text.startsWith(':null', reason + 15)
      if (!isNull || text.includes('"finish_reason"', reason + 20)) return undefined
    }
    if (text.includes('"usage"', length)) return undefined
    this.#carry = ''
    this.#events += 1
    return opening.to + text.slice(length)
  }

  #learnOpening(text: string): void {
    if (this.#opening !== undefined && text.startsWith(this.#opening.from)) return
    const from = text.slice(0, Math.max(0, text.indexOf('"choices"')))
    const isWhole = from.startsWith('data: {') && !from.includes('\n') && !from.includes('"usage"')
    if (!isWhole || this.#needles?.every(([raw]) => from.includes(raw)) !== true) return
    let to = from
    for (const [raw, ours] of this.#needles) to = to.replaceAll(raw, ours)
    this.#opening = { from, to }
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
      // The event with the finish reason has no content.
      if (this.#finished) this.#events -= 1
    }
    this.#learnOpening(text)
    for (const [from, to] of this.#needles ?? []) text = text.replaceAll(from, to)
    return opening + (text.includes('"usage"') ? this.#takeUsage(text) : text)
  }

  /** Learns the engine's id and model name from the first event, and adds the role event if the engine sent none. */
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
    const isOpened = !this.#options.form.opensWithRole || choice?.delta?.role !== undefined
    // The role event is not a token.
    if (choice?.delta?.role !== undefined && !choice.delta.content) this.#events -= 1
    return isOpened ? '' : this.#event([{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }])
  }

  #learn(line: string, name: string, value: unknown, ours: string): void {
    if (typeof value !== 'string' || value === ours) return
    const raw = findMember(line, name, value)
    if (raw !== undefined) this.#needles?.push([raw, `"${name}":${asLatin1(JSON.stringify(ours))}`])
  }

  /** Reads usage and removes it, except from the last event for a client that asked for it. */
  #takeUsage(text: string): string {
    let output = ''
    for (const event of text.split('\n\n')) {
      if (event === '') continue
      output += this.#takeUsageOf(event)
    }
    return output
  }

  #takeUsageOf(event: string): string {
    const member = findUsage(event, 0)
    if (member !== undefined) this.#usage = member.usage
    const isLast = member !== undefined && /"choices"\s*:\s*\[\s*\]/.test(event)
    if (isLast) {
      this.#events -= 1
      this.#usageSent = this.#options.includeUsage
      return this.#options.includeUsage ? `${event}\n\n` : ''
    }
    const bare =
      member === undefined ? event.replace(/,\s*"usage"\s*:\s*null/, '') : cutMember(event, member.start, member.end)
    return `${bare}\n\n`
  }

  /** The end of a complete stream, with a usage event if the client asked for it and the engine sent none. */
  end(usage: EngineUsage): string {
    if (!this.#options.includeUsage || this.#usageSent) return 'data: [DONE]\n\n'
    const reported = {
      prompt_tokens: usage.inputTokens,
      completion_tokens: usage.outputTokens,
      total_tokens: usage.inputTokens + usage.outputTokens,
    }
    return `${this.#event([], { usage: reported })}data: [DONE]\n\n`
  }

  fail({ message, code }: StreamError): string {
    const error = { message, type: 'server_error', param: null, code }
    return asLatin1(`data: ${JSON.stringify({ error })}\n\n`)
  }

  /** An event of our own in the form of this stream. */
  #event(choices: readonly unknown[], more: Readonly<Record<string, unknown>> = {}): string {
    const { id, form, created, model } = this.#options
    return asLatin1(`data: ${JSON.stringify({ id, object: form.object, created, model, choices, ...more })}\n\n`)
  }
}

const DONE = 'data: [DONE]'

/** The position of the line that ends the stream. The same text inside an event is model output. */
function findDone(text: string): number {
  if (text.startsWith(DONE)) return 0
  const before = text.indexOf(`\n${DONE}`)
  return before === -1 ? -1 : before + 1
}

/**
 * The raw text of the member with this name and value. Skips other members of the same name: engines that write the
 * choices first have tool call ids before the answer's id.
 */
export function findMember(text: string, name: string, value: string): string | undefined {
  // Most engines write the member in this form. Inside a JSON string the quotes would be escaped.
  const usual = `"${name}":"${value}"`
  if (PLAIN.test(value) && text.includes(usual)) return usual
  for (const [raw, json = ''] of text.matchAll(new RegExp(`"${name}"\\s*:\\s*("(?:[^"\\\\]|\\\\.)*")`, 'g'))) {
    if (JSON.parse(json) === value) return raw
  }
  return undefined
}

/** Written in JSON as it is. */
const PLAIN = /^[A-Za-z0-9 ._:/@+-]*$/

/** The position of an error event. */
function findError(text: string): number {
  if (text.startsWith('data: {"error"')) return 0
  const at = text.indexOf('\ndata: {"error"')
  return at === -1 ? -1 : at + 1
}

/** Removes a member from an object, with the comma before or after it. */
function cutMember(text: string, start: number, end: number): string {
  const before = text.slice(0, start).trimEnd()
  if (before.endsWith(',')) return before.slice(0, -1) + text.slice(end)
  return before + text.slice(end).trimStart().replace(/^,/, '')
}

/** UTF-8 bytes as latin1 text. */
export function asLatin1(text: string): string {
  // oxlint-disable-next-line no-control-regex -- everything beyond ASCII is what is looked for
  return /^[\x00-\x7f]*$/.test(text) ? text : Buffer.from(text, 'utf8').toString('latin1')
}
