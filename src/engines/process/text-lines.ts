/** Reads lines of an untrusted stream: long lines are cut, excess lines are counted and dropped. */
import type { Readable } from 'node:stream'
import { contained } from '../../base/net/contained.ts'

/** Calls back for each line, cut at the limit. */
export function readLines(stream: Readable, limitChars: number, onLine: (line: string) => void): void {
  let line = ''
  stream.setEncoding('utf8')
  const take = (text: string): void => {
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
  }
  stream.on(
    'data',
    contained(() => stream.destroy(), take),
  )
  stream.on('end', () => {
    if (line !== '') onLine(line.trimEnd())
  })
  // The exit of the process is handled elsewhere; a broken pipe does not matter.
  stream.on('error', () => {})
}

/** Rate-limits lines; `write` gets the number of lines dropped before. */
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
