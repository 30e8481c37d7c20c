/** Server-sent events, read: the other half of base/sse.ts. A chunk may end anywhere, even inside a line ending. */
import type { SseMessage } from '../base/sse.ts'

/** No message of ours comes near it; what does is no event stream. */
const MAX_BUFFERED_CHARS = 1_048_576

export interface SseReader {
  /** Takes a chunk and gives the messages that it completes. Throws a RangeError on a line without end. */
  push(chunk: string): SseMessage[]
}

export function makeSseReader(): SseReader {
  let buffered = ''
  let fields: { id?: string; event?: string; data: string[] } = { data: [] }

  /** The message, when the line is the empty one that ends it. */
  const take = (line: string): SseMessage | undefined => {
    if (line === '') {
      const { data, ...rest } = fields
      fields = { data: [] }
      return data.length === 0 ? undefined : { ...rest, data: data.join('\n') }
    }
    const [, name = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? []
    if (name === 'id' || name === 'event') fields[name] = value
    else if (name === 'data') fields.data.push(value)
    return undefined
  }

  return {
    push: (chunk) => {
      buffered += chunk
      // A carriage return at the very end may be the first half of one line ending.
      const lines = buffered.split(/\r\n|\n|\r(?!$)/)
      buffered = lines.pop() ?? ''
      if (buffered.length > MAX_BUFFERED_CHARS) throw new RangeError('a line of the event stream does not end')
      return lines.flatMap((line) => take(line) ?? [])
    },
  }
}
