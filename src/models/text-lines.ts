/** Lines of a stream that nobody vouches for: too long a line is cut, too many are counted and left out. */
import type { Readable } from 'node:stream'

/** Calls back for each line, without its end. What goes past the limit is dropped. */
export function readLines(stream: Readable, limitChars: number, onLine: (line: string) => void): void {
  let line = ''
  stream.setEncoding('utf8')
  stream.on('data', (text: string) => {
    const [first = '', ...rest] = text.split('\n')
    const add = (more: string): void => {
      if (line.length < limitChars) line += more.slice(0, limitChars - line.length)
    }
    add(first)
    for (const more of rest) {
      onLine(line.trimEnd())
      line = ''
      add(more)
    }
  })
  stream.on('end', () => {
    if (line !== '') onLine(line.trimEnd())
  })
  // The end of the process tells; what is left in a broken pipe does not matter.
  stream.on('error', () => {})
}

/** Lets so many lines through in each stretch of time; `write` is told how many were left out before. */
export function limitLines(
  limit: { readonly lines: number; readonly everyMs: number },
  write: (line: string, leftOut: number) => void,
): (line: string) => void {
  let since = Number.NEGATIVE_INFINITY
  let written = 0
  let leftOut = 0
  return (line) => {
    const now = performance.now()
    if (now - since >= limit.everyMs) {
      since = now
      written = 0
    }
    if (written >= limit.lines) {
      leftOut += 1
      return
    }
    written += 1
    write(line, leftOut)
    leftOut = 0
  }
}
