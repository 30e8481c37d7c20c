/**
 * Answers in a form that the engine does not know: its events are parsed into deltas (`chat-delta.ts`), and an
 * `AnswerWriter` of the dialect writes its own events from them. A plain answer goes through the same writer, so that it
 * cannot differ from the end of a stream. Content events are counted as `ChatStream` counts them: a request costs the
 * same in every dialect, also where an engine reports no usage.
 */
import { StringDecoder } from 'node:string_decoder'
import type { Instant } from '../../base/instant.ts'
import type { AnsweredCall, AnswerForm, AnswerStream, EngineProgress, StreamError } from './answer-form.ts'
import { ChatReader, type ChatDelta, type ChatEnding } from './chat-delta.ts'
import { asLatin1, MAX_EVENT_BYTES } from './chat-stream.ts'
import { findUsage, parseObject, type EngineUsage } from './usage.ts'

/** One answer in the client's form, written from the first part to the last. Texts are ordinary strings. */
export interface AnswerWriter {
  /** The events before the first part. Called once, before anything else. */
  readonly open: () => string
  /** The events for one part of the answer. */
  readonly add: (delta: ChatDelta) => string
  /** The last events of a complete answer. */
  readonly end: (ending: ChatEnding) => string
  /** The last events of an answer that fails. */
  readonly fail: (error: StreamError) => string
  /** The body of a plain answer, instead of `end`. Throws if the answer cannot be expressed. */
  readonly write: (ending: ChatEnding) => string
}

export interface Translation extends Pick<AnswerForm, 'waiting' | 'beforeEnd'> {
  readonly openWriter: (call: AnsweredCall, now: Instant) => AnswerWriter
}

export function translateAnswers({ openWriter, ...form }: Translation): AnswerForm {
  return {
    ...form,
    write: (call, { text, usage }, now) => {
      const writer = openWriter(call, now)
      const reader = readerOf(call)
      writer.open()
      for (const delta of reader.read(parseObject(Buffer.from(text, 'latin1').toString('utf8')) ?? {}))
        writer.add(delta)
      return asLatin1(writer.write(reader.end(usage)))
    },
    openStream: (call, now) => new TranslatedStream(readerOf(call), openWriter(call, now)),
  }
}

function readerOf({ requestId }: AnsweredCall): ChatReader {
  return new ChatReader(requestId.slice(4))
}

class TranslatedStream implements AnswerStream, EngineProgress {
  readonly #reader: ChatReader
  readonly #writer: AnswerWriter
  readonly #decoder = new StringDecoder('utf8')
  #carry = ''
  #isOpen = false
  #events = 0
  #done = false
  #usage: EngineUsage | undefined
  #failed: string | undefined

  constructor(reader: ChatReader, writer: AnswerWriter) {
    this.#reader = reader
    this.#writer = writer
  }

  get progress(): EngineProgress {
    return this
  }

  get done(): boolean {
    return this.#done
  }

  get finished(): boolean {
    return this.#done || this.#reader.finishReason !== undefined
  }

  get failed(): string | undefined {
    return this.#failed
  }

  get usage(): EngineUsage | undefined {
    return this.#usage
  }

  get events(): number {
    return Math.max(0, this.#events)
  }

  push(bytes: Buffer): string | undefined {
    let text = this.#carry + this.#decoder.write(bytes)
    if (text.includes('\r')) text = text.replaceAll('\r\n', '\n')
    const end = text.lastIndexOf('\n\n')
    this.#carry = end === -1 ? text : text.slice(end + 2)
    if (this.#carry.length > MAX_EVENT_BYTES) return undefined
    return end === -1 || this.#done ? '' : this.#translate(text.slice(0, end))
  }

  #translate(lines: string): string | undefined {
    let events = ''
    for (const line of lines.split('\n')) {
      // Comments are signs of life.
      if (line.startsWith(':')) events += `${line}\n\n`
      if (!line.startsWith('data:')) continue
      const data = line.slice(line.charCodeAt(5) === 0x20 ? 6 : 5)
      if (data.startsWith('[DONE]')) {
        this.#done = true
        break
      }
      if (data.startsWith('{"error"')) {
        this.#failed = data.slice(0, 500)
        break
      }
      const event = this.#read(data)
      if (event === undefined) return undefined
      events += event
    }
    if (events === '' && !this.#isOpen && !this.#done && this.#failed === undefined && lines !== '') return undefined
    return asLatin1(events)
  }

  /** undefined: not an event of a chat. */
  #read(data: string): string | undefined {
    const event = parseObject(data)
    const choices = event?.['choices']
    if (event === undefined || (!this.#isOpen && !Array.isArray(choices))) return undefined
    // The role event, the one with the finish reason and the one with nothing but usage are not tokens.
    this.#events += !this.#isOpen && isRole(choices) ? 0 : 1
    let text = this.#open()
    const wasFinished = this.#reader.finishReason !== undefined
    for (const delta of this.#reader.read(event)) text += this.#writer.add(delta)
    if (!wasFinished && this.#reader.finishReason !== undefined) this.#events -= 1
    const report = data.includes('"usage"') ? findUsage(data, 0) : undefined
    if (report === undefined) return text
    this.#usage = report.usage
    if (Array.isArray(choices) && choices.length === 0) this.#events -= 1
    return text
  }

  #open(): string {
    if (this.#isOpen) return ''
    this.#isOpen = true
    return this.#writer.open()
  }

  end(usage: EngineUsage): string {
    return asLatin1(this.#open() + this.#writer.end(this.#reader.end(usage)))
  }

  fail(error: StreamError): string {
    return asLatin1(this.#open() + this.#writer.fail(error))
  }
}

function isRole(choices: unknown): boolean {
  const [choice] = choices as ReadonlyArray<{ delta?: { role?: unknown; content?: unknown } } | undefined>
  return choice?.delta?.role !== undefined && !choice.delta.content
}
