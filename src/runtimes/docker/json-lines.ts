/** Reads a stream of JSON lines, as sent for pulls and events. A line that is not JSON is an error. */
import type { Readable } from 'node:stream'

const MAX_LINE_CHARS = 1_048_576

export async function* readJsonLines(body: Readable): AsyncGenerator {
  let rest = ''
  const decoder = new TextDecoder()
  for await (const chunk of body as AsyncIterable<Buffer>) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > MAX_LINE_CHARS) throw new Error('The container engine sent a line that is too long')
    for (const line of lines) if (line.trim() !== '') yield JSON.parse(line)
  }
  if (rest.trim() !== '') yield JSON.parse(rest)
}
