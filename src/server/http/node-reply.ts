/** An inference answer through node:http, for requests on the full path. */
import type { ServerResponse } from 'node:http'
import { unbuffered } from '../../base/net/sse.ts'
import type { Failure } from '../../contract/result.ts'
import type { Reply } from '../../gateway/call.ts'

/** One header lists the names, and clients read at most some kilobytes of a header. */
const MAX_IGNORED_NAMES = 50

export class NodeReply implements Reply {
  readonly #response: ServerResponse
  readonly #page: (failure: Failure) => { status: number; body: string }
  #isOver = false

  constructor(response: ServerResponse, page: (failure: Failure) => { status: number; body: string }) {
    this.#response = response
    this.#page = page
  }

  get hasBegun(): boolean {
    return this.#response.headersSent
  }

  /** Call before anything is sent. Names that are invalid in a header, or too many, are left out. */
  nameIgnored(names: readonly string[]): void {
    const safe = [...new Set(names)].filter((name) => /^[\w.[\]-]{1,100}$/.test(name))
    this.#response.setHeader('X-Berth-Ignored', safe.slice(0, MAX_IGNORED_NAMES).join(', '))
  }

  send(status: number, contentType: string, body: string): void {
    this.#isOver = true
    this.#response.statusCode = status
    this.#response.setHeader('Content-Type', contentType)
    this.#response.end(body, 'latin1')
  }

  startStream(first: string, contentType = 'text/event-stream; charset=utf-8'): boolean {
    this.#response.setHeader('Content-Type', contentType)
    this.#response.setHeader(unbuffered.name, unbuffered.value)
    if (first === '') {
      this.#response.flushHeaders()
      return true
    }
    return this.#response.write(first, 'latin1')
  }

  write(text: string): boolean {
    return this.#response.write(text, 'latin1')
  }

  endStream(last: string): void {
    this.#isOver = true
    this.#response.end(last, 'latin1')
  }

  refuse(failure: Failure): void {
    const { status, body } = this.#page(failure)
    if (failure.retryAfterMs !== undefined) {
      this.#response.setHeader('Retry-After', Math.ceil(failure.retryAfterMs / 1_000))
    }
    this.send(status, 'application/json; charset=utf-8', Buffer.from(body).toString('latin1'))
  }

  onGone(listener: () => void): void {
    const leave = (): void => {
      if (!this.#isOver) listener()
    }
    // The client may have gone while the request waited for its purse, and 'close' is emitted only once.
    if (this.#response.destroyed) setImmediate(leave)
    else this.#response.once('close', leave)
  }

  abort(): void {
    this.#response.destroy()
  }

  onDrain(listener: () => void): void {
    this.#response.on('drain', listener)
  }
}
