/**
 * An engine's answer as server-sent events: progress, then the complete answer in one event. An image is megabytes in
 * one line, so only new bytes are searched for line ends, and lines are joined once.
 */
import { parseObject } from '../dialect/usage.ts'

/** Progress that is passed on to clients. */
export type MediaProgress =
  | { readonly type: 'queued'; readonly ahead: number }
  | {
      readonly type: 'progress'
      readonly step: number
      readonly steps: number
      /** The text of this part of a recording. */
      readonly segment?: { readonly text: string }
    }
  /** An unfinished image: a PNG in base64. */
  | { readonly type: 'partial'; readonly image: string }
  /** A part of a recording in base64, and the characters of the text that have been spoken. */
  | { readonly type: 'audio'; readonly audio: string; readonly characters: number }

/** The final answer: the body of a plain answer, with its status. */
export interface FinalAnswer {
  readonly status: number
  readonly body: Buffer
}

const LINE_FEED = 0x0a
const DATA = 'data:'

export class EventBody {
  readonly #onProgress: (progress: MediaProgress) => void
  #line: Buffer[] = []
  #answer: FinalAnswer | undefined

  constructor(onProgress: (progress: MediaProgress) => void) {
    this.#onProgress = onProgress
  }

  /** undefined: the answer has not arrived yet. */
  get answer(): FinalAnswer | undefined {
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

  /** Each event is one line; comments and the end marker are skipped. */
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
        return this.#onProgress({
          type: 'progress',
          step: event['step'],
          steps: event['steps'],
          ...segmentOf(event['segment']),
        })
      case 'partial':
        if (typeof event['image'] === 'string') this.#onProgress({ type: 'partial', image: event['image'] })
        return
      case 'audio':
        if (typeof event['audio'] !== 'string' || !isCount(event['characters'])) return
        return this.#onProgress({ type: 'audio', audio: event['audio'], characters: event['characters'] })
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

function segmentOf(value: unknown): { segment?: { text: string } } {
  const text = (value as { text?: unknown } | undefined)?.text
  return typeof text === 'string' ? { segment: { text } } : {}
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

function isClientFault(error: unknown): boolean {
  return (error as { type?: unknown } | null | undefined)?.type === 'invalid_request_error'
}
