/**
 * Lines of a machine's output, with their times: `2026-11-14T12:00:00.123456789Z text`, as Docker writes them. Output is
 * bytes of any kind; only line ends and the search text are looked at.
 */

/** Times are milliseconds since 1970. */
export interface LineFilter {
  readonly since?: number | undefined
  readonly until?: number | undefined
  readonly search?: string | undefined
  readonly timestamps?: boolean | undefined
}

export interface LogLine {
  /** The line's time as text. undefined: unknown. */
  readonly stamp: string | undefined
  /** Includes the line end, if there is one. */
  readonly text: Buffer
}

/** Longer lines are cut into several: a program may never end its line. */
const MAX_LINE_BYTES = 65_536
const LINE_FEED = 0x0a
const SPACE = 0x20
/** A time has at most this many characters. */
const MAX_STAMP_CHARS = 40

export class LineSplitter {
  #partial: Buffer = Buffer.alloc(0)

  /** Returns the lines that are complete now. */
  push(chunk: Buffer): Buffer[] {
    let remaining = this.#partial.length === 0 ? chunk : Buffer.concat([this.#partial, chunk])
    const lines: Buffer[] = []
    for (;;) {
      const end = remaining.indexOf(LINE_FEED)
      if (end < 0 && remaining.length < MAX_LINE_BYTES) break
      const length = end < 0 ? MAX_LINE_BYTES : end + 1
      lines.push(remaining.subarray(0, length))
      remaining = remaining.subarray(length)
    }
    this.#partial = remaining
    return lines
  }

  /** Returns the last line, which has no end. */
  flush(): Buffer[] {
    const partial = this.#partial
    this.#partial = Buffer.alloc(0)
    return partial.length === 0 ? [] : [partial]
  }
}

/** Splits off the time. A line without a time continues the previous one. */
export function parseStamped(line: Buffer): LogLine {
  const space = line.subarray(0, MAX_STAMP_CHARS).indexOf(SPACE)
  const stamp = space < 0 ? '' : line.toString('latin1', 0, space)
  return /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(stamp)
    ? { stamp, text: line.subarray(space + 1) }
    : { stamp: undefined, text: line }
}

/** A line without a time does not match a filter by time. */
export function matches({ stamp, text }: LogLine, filter: LineFilter): boolean {
  const { since, until, search } = filter
  if (since !== undefined || until !== undefined) {
    const at = stamp === undefined ? Number.NaN : Date.parse(stamp)
    if (Number.isNaN(at) || at < (since ?? at) || (until !== undefined && at >= until)) return false
  }
  return search === undefined || text.toString('utf8').toLowerCase().includes(search.toLowerCase())
}

export function showLine({ stamp, text }: LogLine, filter: LineFilter): Buffer {
  return filter.timestamps === true && stamp !== undefined ? Buffer.concat([Buffer.from(`${stamp} `), text]) : text
}

/** Keeps the last lines, up to a number of bytes. */
export class LastLines {
  readonly #maxLines: number
  readonly #maxBytes: number
  #lines: Buffer[] = []
  #first = 0
  #bytes = 0

  constructor(maxLines: number, maxBytes: number) {
    this.#maxLines = maxLines
    this.#maxBytes = maxBytes
  }

  add(line: Buffer): void {
    if (this.#maxLines === 0) return
    // A copy: the line may be a view of a large chunk.
    this.#lines.push(Buffer.from(line))
    this.#bytes += line.length
    while (this.#lines.length - this.#first > this.#maxLines || this.#bytes > this.#maxBytes) {
      this.#bytes -= this.#lines[this.#first]?.length ?? 0
      this.#first += 1
    }
    // The head is dropped now and then, not with every line.
    if (this.#first > 1_000) {
      this.#lines = this.#lines.slice(this.#first)
      this.#first = 0
    }
  }

  all(): Buffer {
    return Buffer.concat(this.#lines.slice(this.#first))
  }
}

/** The last `tail` matching lines of a text whose lines start with their times. */
export function filterText(text: string, tail: number, filter: LineFilter): Buffer {
  const splitter = new LineSplitter()
  const last = new LastLines(tail, Number.POSITIVE_INFINITY)
  for (const line of [...splitter.push(Buffer.from(text)), ...splitter.flush()]) {
    const parsed = parseStamped(line)
    if (matches(parsed, filter)) last.add(showLine(parsed, filter))
  }
  return last.all()
}
