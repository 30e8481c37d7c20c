/**
 * The fast path for chats: about half the CPU of the full path through node:http and fastify for each request. It takes
 * connections before node:http does and answers plain chat requests on the bare socket. At the first request that is
 * anything else, the connection and all bytes read so far go to node:http for good. The fast path refuses nothing
 * itself: a wrong key, a bad parameter or an empty balance takes the full path, which explains every refusal.
 */
import type { Socket } from 'node:net'
import { contained } from '../../base/net/contained.ts'
import { BodyBuffer, type BodyBudget, type BodyRoom } from '../../domain/body-budget.ts'
import { newRequestId, type Caller } from '../call.ts'
import { readFastPathHead, type FastPathHead } from './fast-path-head.ts'
import { FastPathReply, type FastPathReplyOptions } from './fast-path-reply.ts'
import type { Gateway } from '../gateway.ts'

/** Larger bodies take the full path, which has its own limit. */
const MAX_BODY_BYTES = 16_777_216
/** The limit for bytes that a client sends ahead of the answer to its last request. */
const MAX_BUFFERED_BYTES = 65_536
const IDLE_MS = 75_000
const BODY_MS = 30_000
const SWEEP_MS = 1_000

export interface FastPathOptions extends FastPathReplyOptions {
  readonly gateway: Pick<Gateway, 'tryChat' | 'isOpenFor'>
  readonly bodies: BodyBudget
  /**
   * Creates a reader for one connection: it returns the caller from memory. undefined: the key is not cached, or may
   * not call models.
   */
  readonly identifier: () => (authorization: string) => Caller | undefined
  /** Looks up a caller that is not in memory. undefined: the request takes the full path. */
  readonly introduce: (authorization: string) => Promise<Caller | undefined>
  /** Gives the connection to the full path, with all bytes read so far. */
  readonly handOver: (socket: Socket, bytes: Buffer) => void
  /** Gives a connection whose first request is a chat to a worker. false: it stays here. */
  readonly spread?: ((socket: Socket, bytes: Buffer) => boolean) | undefined
  /**
   * Tells whether the host name belongs to an HTTP port of a rental, whose requests are not ours. Absent: none does.
   */
  readonly isOther?: (host: string) => boolean
  /** true: each answer is the last of its connection and says so; connections without an answer stay open. */
  readonly isRetiring?: () => boolean
}

export interface FastPath {
  take(socket: Socket): void
  /** Whether a request is being read or answered. */
  isBusy(): boolean
  /** Closes idle connections at once and the others after their answer; resolves when none is left. */
  close(): Promise<void>
  /** Closes the remaining connections at once. */
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
    isBusy: () => [...connections].some((one) => one.isBusy),
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
  /** The complete body. */
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
  readonly #onData = contained(
    () => this.#socket.destroy(),
    (bytes: Buffer) => this.#read(bytes),
  )
  readonly #onEnd = (): void => this.#ended()
  readonly #onClose = (): void => this.#closed()
  readonly #onError = (): void => {}
  readonly #onDrain = (): void => this.#answer?.drained()
  /** Bytes of requests that have not started yet. */
  #ahead: Buffer | undefined
  #body: PartialRequest | undefined
  /** The room of the current request, from the first byte of its body to the end of its answer. */
  #room: BodyRoom | undefined
  /** A purse or a counter is being filled for the current request. */
  #isWaiting = false
  #answer: FastPathReply | undefined
  #since = performance.now()

  constructor(socket: Socket, options: FastPathOptions, isClosing: () => boolean, onLeft: () => void) {
    this.#socket = socket
    this.#options = options
    this.#identify = options.identifier()
    this.#isClosing = isClosing
    this.#left = onLeft
    socket.setNoDelay(true)
    socket.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose)
    socket.on('error', this.#onError).on('drain', this.#onDrain)
  }

  get isBusy(): boolean {
    return this.#answer !== undefined || this.#body !== undefined || this.#isWaiting
  }

  endIfIdle(): void {
    if (this.isBusy) return
    // The last answer may still be in flight to a slow reader.
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
    if (this.#options.isOther !== undefined && head.hosts.some(this.#options.isOther)) return this.#handOver(bytes)
    if (this.#options.spread?.(this.#socket, bytes) === true) return this.#detach()
    const end = head.headBytes + head.bodyBytes
    if (bytes.length >= end) {
      const headCopy = Buffer.from(bytes.subarray(0, end))
      const request = {
        head,
        headBytes: headCopy.subarray(0, head.headBytes),
        bytes: headCopy.subarray(head.headBytes),
      }
      return this.#start(request, bytes.length > end ? Buffer.from(bytes.subarray(end)) : undefined)
    }
    // An unknown key, an empty balance or a full budget gets no buffer here; the full path explains the refusal.
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
    const part = bytes.subarray(0, head.bodyBytes - buffer.bytes)
    buffer.add(part)
    if (buffer.bytes < head.bodyBytes) return
    this.#body = undefined
    const remaining = part.length < bytes.length ? Buffer.from(bytes.subarray(part.length)) : undefined
    this.#start({ head, headBytes, bytes: buffer.whole() }, remaining)
  }

  #start(request: WholeRequest, remaining: Buffer | undefined): void {
    // This is set before the exchange starts, which may end at once.
    this.#ahead = remaining
    const caller = this.#identify(request.head.authorization)
    const isStarted = caller === undefined ? this.#startUnknown(request) : this.#chat(caller, request)
    if (isStarted === true) return
    if (isStarted === false) return this.#handOverAll(request)
    this.#isWaiting = true
    void this.#startLater(request, isStarted)
  }

  async #startLater(request: WholeRequest, isStarted: Promise<boolean>): Promise<void> {
    try {
      const isBegun = await isStarted
      this.#isWaiting = false
      if (!isBegun) this.#handOverAll(request)
    } catch {
      // Neither lookup rejects; if one ever does, close the connection.
      this.#socket.destroy()
    }
  }

  async #startUnknown(request: WholeRequest): Promise<boolean> {
    const { authorization } = request.head
    const caller = await this.#options.introduce(authorization)
    return caller !== undefined && this.#chat(caller, request)
  }

  #chat(caller: Caller, { head, bytes }: WholeRequest): boolean | Promise<boolean> {
    const requestId = newRequestId(this.#options.now())
    const headers = { requestId, traceparent: head.traceparent, session: head.session }
    return this.#options.gateway.tryChat(caller, bytes, headers, (rate) => {
      const isLast = (): boolean => this.#isClosing() || this.#options.isRetiring?.() === true
      const answer = new FastPathReply(this.#socket, requestId, rate, this.#options, isLast, (last) => this.#next(last))
      this.#answer = answer
      return answer
    })
  }

  /** Called when the answer is sent: starts the request that came ahead, if any. */
  #next(isLast: boolean): void {
    this.#answer = undefined
    this.#releaseRoom()
    this.#since = performance.now()
    if (isLast || this.#isClosing()) return void this.#socket.end()
    if (this.#ahead === undefined) return
    // A thousand pipelined requests would recurse a thousand levels deep without this. Bytes that arrive until then
    // queue behind the ones already here.
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
    this.#detach()
    this.#releaseRoom()
    if (!this.#socket.destroyed) this.#options.handOver(this.#socket, bytes)
  }

  #detach(): void {
    const socket = this.#socket
    socket.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose)
    socket.off('error', this.#onError).off('drain', this.#onDrain)
    this.#left()
  }

  /** A client that closes its side has gone: the engine stops, as behind other proxies. */
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
