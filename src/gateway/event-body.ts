/**
 * An answer that an engine tells in server-sent events: how far it is on the way, and at last the whole in one event.
 * A picture has megabytes in one line, so lines are found in what is new and joined once, never searched again.
 */
import { parseObject } from './usage.ts'

/** What a client may be told on the way. */
export type MediaProgress =
  | { readonly type: 'queued'; readonly ahead: number }
  | { readonly type: 'progress'; readonly step: number; readonly steps: number }

/** How it ended: the body of a plain answer, with its status. */
export interface ToldAnswer {
  readonly status: number
  readonly body: Buffer
}

const LINE_FEED = 0x0a
const DATA = 'data:'

export class EventBody {
  readonly #onProgress: (progress: MediaProgress) => void
  #line: Buffer[] = []
  #answer: ToldAnswer | undefined

  constructor(onProgress: (progress: MediaProgress) => void) {
    this.#onProgress = onProgress
  }

  /** undefined: it has not said yet. */
  get answer(): ToldAnswer | undefined {
    return this.#answer
  }

  /** The bytes are only valid during the call. */
  push(bytes: Buffer): void {
    let from = 0
    for (let end = bytes.indexOf(LINE_FEED); end !== -1; end = bytes.indexOf(LINE_FEED, from)) {
      this.#line.push(bytes.subarray(from, end))
      const line = Buffer.concat(this.#line)
      this.#line = []
      from = end + 1
      this.#take(line)
    }
    if (from < bytes.length) this.#line.push(Buffer.from(bytes.subarray(from)))
  }

  /** Each event is one line; what is none of ours (a comment, the mark of the end) says nothing. */
  #take(line: Buffer): void {
    if (this.#answer !== undefined || line.toString('latin1', 0, DATA.length) !== DATA) return
    const body = line.subarray(DATA.length)
    const event = parseObject(body.toString('utf8'))
    switch (event?.['type']) {
      case 'queued':
        if (isCount(event['ahead'])) this.#onProgress({ type: 'queued', ahead: event['ahead'] })
        return
      case 'progress':
        if (!isCount(event['step']) || !isCount(event['steps'])) return
        return this.#onProgress({ type: 'progress', step: event['step'], steps: event['steps'] })
      case 'result':
        this.#answer = { status: 200, body }
        return
      case 'error':
        this.#answer = { status: isClientFault(event['error']) ? 400 : 500, body }
        return
      default:
    }
  }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

function isClientFault(error: unknown): boolean {
  return (error as { type?: unknown } | null | undefined)?.type === 'invalid_request_error'
}
