/** Reads a stream of JSON lines, as sent for pulls and events. A line that is not JSON is an error. */
import type { Readable } from 'node:stream'

const MAX_LINE_CHARS = 1_048_576

export async function* readJsonLines(body: Readable): AsyncGenerator {
  let partial = ''
  const decoder = new TextDecoder()
  for await (const chunk of body as AsyncIterable<Buffer>) {
    const lines = (partial + decoder.decode(chunk, { stream: true })).split('\n')
    partial = lines.pop() ?? ''
    if (partial.length > MAX_LINE_CHARS) throw new Error('The container engine sent a line that is too long')
    for (const line of lines) if (line.trim() !== '') yield JSON.parse(line)
  }
  if (partial.trim() !== '') yield JSON.parse(partial)
}
