/**
 * Parses server-sent events; base/net/sse.ts formats them. A chunk can end anywhere, even inside a line ending. Each
 * character is scanned once, however many chunks a message has: an image is one line of many megabytes.
 */
import type { SseMessage } from '../base/net/sse.ts'

/** Limit for one message; Berth's events are far smaller. */
const MAX_CHARS = 1_048_576

export interface SseReader {
  /** Returns the messages that the chunk completes. Throws a RangeError if a message is too long. */
  push(chunk: string): SseMessage[]
}

interface Fields {
  id?: string
  event?: string
  readonly data: string[]
}

export function makeSseReader(maxChars: number = MAX_CHARS): SseReader {
  let fields: Fields = { data: [] }
  /** The start of an incomplete line. */
  let parts: string[] = []
  let chars = 0
  let endedInReturn = false

  /** Returns the message if the line is the empty line that ends it. */
  const take = (line: string): SseMessage | undefined => {
    if (line !== '') {
      setField(fields, line)
      return undefined
    }
    const { data, ...rest } = fields
    fields = { data: [] }
    chars = 0
    return data.length === 0 ? undefined : { ...rest, data: data.join('\n') }
  }

  return {
    push: (chunk) => {
      const messages: SseMessage[] = []
      const ending = /\r\n?|\n/g
      // If the last chunk ended in a carriage return, a line feed here belongs to it.
      let from = endedInReturn && chunk.startsWith('\n') ? 1 : 0
      if (chunk !== '') endedInReturn = chunk.endsWith('\r')
      ending.lastIndex = from
      for (let end = ending.exec(chunk); end !== null; end = ending.exec(chunk)) {
        const linePart = chunk.slice(from, end.index)
        const message = take(parts.length === 0 ? linePart : parts.join('') + linePart)
        if (message !== undefined) messages.push(message)
        parts = []
        from = ending.lastIndex
        chars += linePart.length
      }
      if (from < chunk.length) parts.push(chunk.slice(from))
      chars += chunk.length - from
      if (chars > maxChars) throw new RangeError('a message of the event stream is too long')
      return messages
    },
  }
}

function setField(fields: Fields, line: string): void {
  const colon = line.indexOf(':')
  const name = colon === -1 ? line : line.slice(0, colon)
  const value = colon === -1 ? '' : line.slice(colon + (line[colon + 1] === ' ' ? 2 : 1))
  if (name === 'id' || name === 'event') fields[name] = value
  else if (name === 'data') fields.data.push(value)
}

export interface ReadingOptions {
  /** The longest message. */
  readonly maxChars?: number | undefined
  /** Called after this long without data; reading continues until the response ends. */
  readonly silenceMs: number
  readonly onSilence: () => void
}

/** The messages of a response. Stopping the iteration cancels the response. */
export async function* readMessages(
  response: Response,
  { maxChars, silenceMs, onSilence }: ReadingOptions,
): AsyncGenerator<SseMessage, void> {
  const reader = response.body?.getReader()
  if (reader === undefined) return
  const decoder = new TextDecoder()
  const messages = makeSseReader(maxChars)
  try {
    for (;;) {
      // Only while waiting for data: a slow caller is not a silent server.
      const silence = setTimeout(onSilence, silenceMs)
      const { done, value } = await reader.read().finally(() => clearTimeout(silence))
      if (done) return
      yield* messages.push(decoder.decode(value, { stream: true }))
    }
  } finally {
    // A broken stream cannot be canceled cleanly.
    await reader.cancel().catch(() => {})
  }
}
