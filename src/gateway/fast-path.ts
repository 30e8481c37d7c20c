/**
 * The front door for chats. It takes connections before node:http does, answers plain chat requests on the bare socket,
 * and hands a connection over, with all bytes it has read, at the first request that is anything else; from then on the
 * connection is node:http's. It never refuses anything itself: who has no money, a wrong key or a bad parameter is
 * handed over too, and gets the answer that everyone gets.
 */
import type { Socket } from 'node:net'
import { BodyBuffer, type BodyBudget, type BodyRoom } from '../base/body-budget.ts'
import type { Failure } from '../base/result.ts'
import { unbuffered } from '../base/sse.ts'
import { newRequestId, type Caller, type Reply } from './call.ts'
import { readFastPathHead, type FastPathHead } from './fast-path-head.ts'
import type { Gateway, RateHead } from './gateway.ts'

/** Larger bodies go the way of all others, which has a limit of its own. */
const MAX_BODY_BYTES = 16_777_216
/** What a client may send ahead while its last request is answered. */
const MAX_BUFFERED_BYTES = 65_536
const IDLE_MS = 75_000
const BODY_MS = 30_000
const SWEEP_MS = 1_000

export interface FastPathOptions {
  readonly gateway: Pick<Gateway, 'tryChat' | 'isOpenFor'>
  readonly bodies: BodyBudget
  /** For one connection: who sends, from memory and at once. undefined: not known now, or not a key that may. */
  readonly identifier: () => (authorization: string) => Caller | undefined
  /** Looks up who sends, so that the next `identifier` knows; whatever comes of it. */
  readonly introduce: (authorization: string) => Promise<unknown>
  readonly handOver: (socket: Socket) => void
  /** A failure as a whole HTTP body. */
  readonly page: (failure: Failure) => { status: number; body: string }
  readonly now: () => number
}

export interface FastPath {
  take(socket: Socket): void
  /** Idle connections are closed at once, the others after their answer; resolves when there is none left. */
  close(): Promise<void>
  /** Ends what is left. */
  destroy(): void
}

export function makeFastPath(options: FastPathOptions): FastPath {
  const connections = new Set<FastPathConnection>()
  let closing = false
  const sweep = setInterval(() => {
    const now = performance.now()
    for (const connection of connections) connection.endIfLate(now)
  }, SWEEP_MS).unref()
  let whenEmpty = (): void => {}
  return {
    take: (socket) => {
      const leave = (): void => {
        connections.delete(connection)
        if (connections.size === 0) whenEmpty()
      }
      const connection = new FastPathConnection(socket, options, () => closing, leave)
      connections.add(connection)
    },
    close: async () => {
      closing = true
      clearInterval(sweep)
      for (const connection of connections) connection.endIfIdle()
      if (connections.size > 0) await new Promise<void>((resolve) => (whenEmpty = resolve))
    },
    destroy: () => {
      for (const connection of connections) connection.destroy()
    },
  }
}

interface WholeRequest {
  readonly head: FastPathHead
  readonly headBytes: Buffer
  /** The body, when all of it is there. */
  readonly bytes: Buffer
}

/** A request whose body is still arriving. */
interface PartialRequest {
  readonly head: FastPathHead
  readonly headBytes: Buffer
  readonly buffer: BodyBuffer
}

class FastPathConnection {
  readonly #socket: Socket
  readonly #options: FastPathOptions
  readonly #identify: (authorization: string) => Caller | undefined
  readonly #isClosing: () => boolean
  readonly #left: () => void
  readonly #onData = (bytes: Buffer): void => this.#read(bytes)
  readonly #onEnd = (): void => this.#ended()
  readonly #onClose = (): void => this.#closed()
  readonly #onError = (): void => {}
  readonly #onDrain = (): void => this.#answer?.drained()
  /** Bytes of requests that were not begun yet. */
  #ahead: Buffer | undefined
  #body: PartialRequest | undefined
  /** Of the request at hand, from its body's first byte to the end of its answer. */
  #room: BodyRoom | undefined
  /** A purse or a counter is being filled for the request at hand. */
  #isWaiting = false
  #answer: FastPathReply | undefined
  #since = performance.now()

  constructor(socket: Socket, options: FastPathOptions, isClosing: () => boolean, left: () => void) {
    this.#socket = socket
    this.#options = options
    this.#identify = options.identifier()
    this.#isClosing = isClosing
    this.#left = left
    socket.setNoDelay(true)
    socket.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose)
    socket.on('error', this.#onError).on('drain', this.#onDrain)
  }

  endIfIdle(): void {
    if (this.#answer !== undefined || this.#body !== undefined || this.#isWaiting) return
    // The last answer may still be on its way to a client that reads slowly.
    if (this.#socket.writableLength > 0) this.#socket.end()
    else this.#socket.destroy()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  endIfLate(now: number): void {
    if (this.#answer !== undefined || this.#isWaiting) return
    if (now - this.#since > (this.#body === undefined ? IDLE_MS : BODY_MS)) this.#socket.destroy()
  }

  /** The bytes are only valid during the call: what is needed for longer is copied. */
  #read(bytes: Buffer): void {
    if (this.#body !== undefined) return this.#fill(bytes)
    const isFree = this.#answer === undefined && !this.#isWaiting
    if (isFree && this.#ahead === undefined) return this.#begin(bytes)
    const all = Buffer.concat(this.#ahead === undefined ? [bytes] : [this.#ahead, bytes])
    this.#ahead = undefined
    if (isFree) return this.#begin(all)
    this.#ahead = all
    if (all.length > MAX_BUFFERED_BYTES) this.#socket.pause()
  }

  #begin(bytes: Buffer): void {
    const head = readFastPathHead(bytes)
    if (head === undefined || head.bodyBytes > MAX_BODY_BYTES) return this.#handOver(bytes)
    const end = head.headBytes + head.bodyBytes
    if (bytes.length >= end) {
      const own = Buffer.from(bytes.subarray(0, end))
      const request = { head, headBytes: own.subarray(0, head.headBytes), bytes: own.subarray(head.headBytes) }
      return this.#start(request, bytes.length > end ? Buffer.from(bytes.subarray(end)) : undefined)
    }
    // Who is not known yet, is out of money or sends too much at once gets no room here, but an answer in words there.
    const caller = this.#identify(head.authorization)
    if (caller === undefined || !this.#options.gateway.isOpenFor(caller)) return this.#handOver(bytes)
    this.#room = this.#options.bodies.open(caller.accountId)
    if (this.#room.grow(head.bodyBytes) !== undefined) return this.#handOver(bytes)
    const headBytes = Buffer.from(bytes.subarray(0, head.headBytes))
    this.#body = { head, headBytes, buffer: new BodyBuffer(head.bodyBytes) }
    this.#since = performance.now()
    this.#fill(bytes.subarray(head.headBytes))
  }

  #fill(bytes: Buffer): void {
    const body = this.#body
    if (body === undefined) return
    const { head, headBytes, buffer } = body
    const own = bytes.subarray(0, head.bodyBytes - buffer.bytes)
    buffer.add(own)
    if (buffer.bytes < head.bodyBytes) return
    this.#body = undefined
    const rest = own.length < bytes.length ? Buffer.from(bytes.subarray(own.length)) : undefined
    this.#start({ head, headBytes, bytes: buffer.whole() }, rest)
  }

  #start(request: WholeRequest, rest: Buffer | undefined): void {
    // Known before the exchange starts: it may end at once.
    this.#ahead = rest
    const caller = this.#identify(request.head.authorization)
    const begun = caller === undefined ? this.#startUnknown(request) : this.#chat(caller, request)
    if (begun === true) return
    if (begun === false) return this.#handOverAll(request)
    this.#isWaiting = true
    void this.#startLater(request, begun)
  }

  async #startLater(request: WholeRequest, begun: Promise<boolean>): Promise<void> {
    try {
      const isBegun = await begun
      this.#isWaiting = false
      if (!isBegun) this.#handOverAll(request)
    } catch {
      // Neither a key nor a purse rejects; if one does, the client sees its connection end.
      this.#socket.destroy()
    }
  }

  async #startUnknown(request: WholeRequest): Promise<boolean> {
    const { authorization } = request.head
    await this.#options.introduce(authorization)
    const caller = this.#identify(authorization)
    return caller !== undefined && this.#chat(caller, request)
  }

  #chat(caller: Caller, { head, bytes }: WholeRequest): boolean | Promise<boolean> {
    const requestId = newRequestId()
    const headers = { requestId, traceparent: head.traceparent, session: head.session }
    return this.#options.gateway.tryChat(caller, bytes, headers, (rate) => {
      const answer = new FastPathReply(this.#socket, requestId, rate, this.#options, this.#isClosing, () =>
        this.#next(),
      )
      this.#answer = answer
      return answer
    })
  }

  /** The answer is out: what was sent ahead is next. */
  #next(): void {
    this.#answer = undefined
    this.#releaseRoom()
    this.#since = performance.now()
    if (this.#isClosing()) return void this.#socket.end()
    if (this.#ahead === undefined) return
    // Not from inside the last answer: a thousand requests in one piece would be a thousand calls deep. Until then
    // what comes is put behind what is there.
    this.#isWaiting = true
    setImmediate(() => {
      this.#isWaiting = false
      const ahead = this.#ahead
      this.#ahead = undefined
      if (ahead === undefined || this.#socket.destroyed) return
      this.#socket.resume()
      this.#begin(ahead)
    })
  }

  #handOverAll({ headBytes, bytes }: WholeRequest): void {
    const ahead = this.#ahead
    this.#ahead = undefined
    this.#handOver(Buffer.concat([headBytes, bytes, ...(ahead === undefined ? [] : [ahead])]))
  }

  #handOver(bytes: Buffer): void {
    const socket = this.#socket
    socket.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose)
    socket.off('error', this.#onError).off('drain', this.#onDrain)
    this.#left()
    this.#releaseRoom()
    if (socket.destroyed) return
    // Paused, so that the bytes stay in the stream until node:http listens.
    socket.pause()
    socket.unshift(bytes)
    this.#options.handOver(socket)
    socket.resume()
  }

  /** A client that has closed its side has gone: the engine stops, as it does behind other proxies. */
  #ended(): void {
    this.#answer?.gone()
    this.#socket.destroy()
  }

  #closed(): void {
    this.#left()
    this.#body = undefined
    this.#releaseRoom()
    this.#answer?.gone()
  }

  #releaseRoom(): void {
    this.#room?.release()
    this.#room = undefined
  }
}

/** An answer on the bare socket: one write for the head with the first bytes, then one a piece. */
class FastPathReply implements Reply {
  readonly #socket: Socket
  readonly #requestId: string
  readonly #rate: RateHead
  readonly #options: FastPathOptions
  readonly #isClosing: () => boolean
  readonly #done: () => void
  #goneListener: (() => void) | undefined
  #drainListener: (() => void) | undefined
  #isOver = false

  constructor(
    socket: Socket,
    requestId: string,
    rate: RateHead,
    options: FastPathOptions,
    isClosing: () => boolean,
    done: () => void,
  ) {
    this.#socket = socket
    this.#requestId = requestId
    this.#rate = rate
    this.#options = options
    this.#isClosing = isClosing
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
    // It may have gone while the request waited for its purse.
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
    this.#done()
  }

  #head(status: number, contentType: string): string {
    const { limit, remaining, resetAt } = this.#rate
    const reset = Math.max(0, Math.ceil((resetAt - this.#options.now()) / 1_000))
    return (
      `HTTP/1.1 ${status} ${reasons[status] ?? 'Error'}\r\n` +
      `Content-Type: ${contentType}\r\n` +
      `X-Inference-Request-Id: ${this.#requestId}\r\nX-Request-Id: ${this.#requestId}\r\n` +
      `X-RateLimit-Limit: ${limit}\r\nX-RateLimit-Remaining: ${Math.max(0, remaining)}\r\nX-RateLimit-Reset: ${reset}\r\n` +
      'Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n' +
      (this.#isClosing() ? 'Connection: close\r\n' : '')
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

/** Nothing to say is no chunk: an empty one would be the end. */
function chunkOf(text: string): string {
  return text === '' ? '' : `${text.length.toString(16)}\r\n${text}\r\n`
}
