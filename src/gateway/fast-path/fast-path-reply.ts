/** An answer of the fast path on the bare socket: one write for the head with the first bytes, then one for each piece. */
import type { Socket } from 'node:net'
import { unbuffered } from '../../base/net/sse.ts'
import type { Failure } from '../../contract/result.ts'
import type { Reply } from '../call.ts'
import type { RateHead } from '../gateway.ts'

export interface FastPathReplyOptions {
  /** A failure as an HTTP status and body. */
  readonly page: (failure: Failure) => { status: number; body: string }
  readonly now: () => number
}

export class FastPathReply implements Reply {
  readonly #socket: Socket
  readonly #requestId: string
  readonly #rate: RateHead
  readonly #options: FastPathReplyOptions
  readonly #isLast: () => boolean
  readonly #done: (saidLast: boolean) => void
  #saidLast = false
  #goneListener: (() => void) | undefined
  #drainListener: (() => void) | undefined
  #isOver = false

  constructor(
    socket: Socket,
    requestId: string,
    rate: RateHead,
    options: FastPathReplyOptions,
    isLast: () => boolean,
    done: (saidLast: boolean) => void,
  ) {
    this.#socket = socket
    this.#requestId = requestId
    this.#rate = rate
    this.#options = options
    this.#isLast = isLast
    this.#done = done
  }

  send(status: number, contentType: string, body: string): void {
    this.#socket.write(`${this.#head(status, contentType)}Content-Length: ${body.length}\r\n\r\n${body}`, 'latin1')
    this.#finish()
  }

  startStream(first: string): boolean {
    const head =
      this.#head(200, 'text/event-stream; charset=utf-8') +
      `${unbuffered.name}: ${unbuffered.value}\r\nTransfer-Encoding: chunked\r\n\r\n`
    return this.#socket.write(head + chunkOf(first), 'latin1')
  }

  write(text: string): boolean {
    return this.#socket.write(chunkOf(text), 'latin1')
  }

  endStream(last: string): void {
    this.#socket.write(`${chunkOf(last)}0\r\n\r\n`, 'latin1')
    this.#finish()
  }

  refuse(failure: Failure): void {
    const { status, body } = this.#options.page(failure)
    const retry =
      failure.retryAfterMs === undefined ? '' : `Retry-After: ${Math.ceil(failure.retryAfterMs / 1_000)}\r\n`
    const bytes = Buffer.from(body)
    this.#socket.write(
      `${this.#head(status, 'application/json; charset=utf-8')}${retry}Content-Length: ${bytes.length}\r\n\r\n`,
      'latin1',
    )
    this.#socket.write(bytes)
    this.#finish()
  }

  onGone(listener: () => void): void {
    this.#goneListener = listener
    // The client may have gone while the request waited for its purse.
    if (this.#socket.destroyed) setImmediate(() => this.gone())
  }

  onDrain(listener: () => void): void {
    this.#drainListener = listener
  }

  abort(): void {
    this.#socket.destroy()
  }

  gone(): void {
    if (!this.#isOver) this.#goneListener?.()
  }

  drained(): void {
    this.#drainListener?.()
  }

  #finish(): void {
    this.#isOver = true
    this.#done(this.#saidLast)
  }

  #head(status: number, contentType: string): string {
    const { limit, remaining, resetAt } = this.#rate
    this.#saidLast = this.#isLast()
    const reset = Math.max(0, Math.ceil((resetAt - this.#options.now()) / 1_000))
    return (
      `HTTP/1.1 ${status} ${reasons[status] ?? 'Error'}\r\n` +
      `Content-Type: ${contentType}\r\n` +
      `X-Inference-Request-Id: ${this.#requestId}\r\nX-Request-Id: ${this.#requestId}\r\n` +
      `X-RateLimit-Limit: ${limit}\r\nX-RateLimit-Remaining: ${Math.max(0, remaining)}\r\nX-RateLimit-Reset: ${reset}\r\n` +
      'Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n' +
      (this.#saidLast ? 'Connection: close\r\n' : '')
    )
  }
}

const reasons: Readonly<Record<number, string>> = {
  200: 'OK',
  400: 'Bad Request',
  413: 'Payload Too Large',
  422: 'Unprocessable Entity',
  429: 'Too Many Requests',
  503: 'Service Unavailable',
}

/** An empty chunk would end the body, so empty text is no chunk. */
function chunkOf(text: string): string {
  return text === '' ? '' : `${text.length.toString(16)}\r\n${text}\r\n`
}
