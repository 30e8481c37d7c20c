/**
 * Server-sent events, read: the other half of base/sse.ts. A chunk may end anywhere, even inside a line ending. Each
 * character is looked at once, however many chunks a message comes in: a picture is one line of many megabytes.
 */
import type { SseMessage } from '../base/sse.ts'

/** Of one message. No event of ours comes near it; what does is no event stream. */
const MAX_CHARS = 1_048_576

export interface SseReader {
  /** Takes a chunk and gives the messages that it completes. Throws a RangeError on a message without end. */
  push(chunk: string): SseMessage[]
}

interface Fields {
  id?: string
  event?: string
  readonly data: string[]
}

export function makeSseReader(maxChars: number = MAX_CHARS): SseReader {
  let fields: Fields = { data: [] }
  /** The beginning of a line, whose end has not come yet. */
  let parts: string[] = []
  let chars = 0
  let endedInReturn = false

  /** The message, when the line is the empty one that ends it. */
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
      // A line that ended in a carriage return at the end of the last chunk may have a line feed that belongs to it.
      let from = endedInReturn && chunk.startsWith('\n') ? 1 : 0
      if (chunk !== '') endedInReturn = chunk.endsWith('\r')
      ending.lastIndex = from
      for (let end = ending.exec(chunk); end !== null; end = ending.exec(chunk)) {
        const rest = chunk.slice(from, end.index)
        const message = take(parts.length === 0 ? rest : parts.join('') + rest)
        if (message !== undefined) messages.push(message)
        parts = []
        from = ending.lastIndex
        chars += rest.length
      }
      if (from < chunk.length) parts.push(chunk.slice(from))
      chars += chunk.length - from
      if (chars > maxChars) throw new RangeError('a message of the event stream does not end')
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
  /** Called when nothing has come for so long; the reading goes on until what was asked for ends. */
  readonly silenceMs: number
  readonly onSilence: () => void
}

/** The messages of an answer. Who stops to read them ends the answer. */
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
      // Only while we wait ourselves: a slow caller is not a silent server.
      const silence = setTimeout(onSilence, silenceMs)
      const { done, value } = await reader.read().finally(() => clearTimeout(silence))
      if (done) return
      yield* messages.push(decoder.decode(value, { stream: true }))
    }
  } finally {
    // What is already broken cannot be ended in good order.
    await reader.cancel().catch(() => {})
  }
}
