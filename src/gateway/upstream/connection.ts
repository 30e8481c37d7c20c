/**
 * The HTTP/1.1 client for engines (connection.ts, pool.ts, response-head.ts, response-reader.ts, ticker.ts): 14 µs of CPU
 * per request, where node:http's agent takes 85 and undici 51. A connection carries one request at a time and is
 * reused only after an answer that ended cleanly. All plain sockets read into one shared buffer. If the server closed
 * an idle connection, the next request goes to a fresh one.
 */
import { once } from 'node:events'
import net, { type LookupFunction } from 'node:net'
import type { Duplex } from 'node:stream'
import tls from 'node:tls'
import { contained } from '../../base/net/contained.ts'
import { MuxClosed } from '../../base/net/mux-closed.ts'
import type { Address, LinkAddress } from '../catalog.ts'
import type { ResponseHead } from './response-head.ts'
import { ResponseReader, type ResponseEvents } from './response-reader.ts'
import type { Ticker, Ticking } from './ticker.ts'

/** Receives an answer: exactly one `onEnd` or `onFault`, unless the request is cancelled first. */
export interface AnswerSink {
  /** Set while an answer is pending. */
  connection: Connection | undefined
  onHead(head: ResponseHead): void
  /** The bytes are only valid during the call. */
  onData(bytes: Buffer): void
  onEnd(): void
  onFault(kind: FaultKind, detail: string): void
}

/** `total`: the whole answer took too long. `broken`: cut off, or not HTTP. */
export type FaultKind = 'connect' | 'connect_timeout' | 'first_byte_timeout' | 'quiet' | 'total' | 'broken'

export interface TimeLimits {
  readonly connectMs: number
  /** Up to the first byte of the body: engines send the head long before the first token. */
  readonly firstByteMs: number
  readonly betweenBytesMs: number
  readonly totalMs: number
}

export interface Outgoing {
  /** Including the empty line at its end. */
  readonly head: string
  readonly body: ReadonlyArray<Uint8Array | string>
  readonly limits: TimeLimits
}

/** The pool, as its connections see it. */
export interface ConnectionOwner {
  readonly ticker: Ticker
  /** The connection is free. `keepAliveMs`: the server's keep-alive timeout. */
  release(connection: Connection, keepAliveMs: number | undefined): void
  /** The connection is gone. */
  forget(connection: Connection): void
  /** The server closed this connection before it read the request, which must be sent again. */
  resend(sink: AnswerSink, outgoing: Outgoing): void
  keepSession(session: Buffer): void
}

export interface SocketOptions {
  readonly lookup: LookupFunction | undefined
  /** Trusted certificates that replace the system's. */
  readonly ca: string | undefined
  /** Opens a stream to a port of a rented machine. It throws if the host is not connected. */
  readonly dial?: ((address: LinkAddress) => Duplex) | undefined
}

const READ_BUFFER_BYTES = 65_536
/** Bodies up to this size go out in one write with the head. */
const JOINED_BYTES = 16_384
const readBuffer = Buffer.allocUnsafeSlow(READ_BUFFER_BYTES)

type Phase = 'connecting' | 'idle' | 'busy' | 'closed'

export class Connection implements ResponseEvents, Ticking {
  place = -1
  idleUntil = Infinity
  readonly #owner: ConnectionOwner
  readonly #socket: Duplex
  readonly #reader = new ResponseReader(this)
  #phase: Phase = 'connecting'
  #sink: AnswerSink | undefined
  #outgoing: Outgoing | undefined
  #limits: TimeLimits
  #head: ResponseHead | undefined
  #startedAt: number
  #quietSince = 0
  /** Bytes arrived since the last tick. */
  #hasRead = false
  #hasBody = false
  #isPaused = false
  #answers = 0

  constructor(
    owner: ConnectionOwner,
    address: Address,
    options: SocketOptions,
    session: Buffer | undefined,
    limits: TimeLimits,
  ) {
    this.#owner = owner
    this.#limits = limits
    this.#startedAt = performance.now()
    this.#socket = this.#openAny(address, options, session)
    this.#socket.on('error', (error) => this.#lose(describe(error), error instanceof MuxClosed))
    this.#socket.on('end', () => this.#lose('the connection ended'))
    this.#socket.on('close', () => this.#lose('the connection was closed'))
    owner.ticker.add(this)
  }

  /** Call it only while the connection is idle or has just been opened. */
  send(sink: AnswerSink, outgoing: Outgoing): void {
    this.#sink = sink
    this.#outgoing = outgoing
    this.#limits = outgoing.limits
    this.#startedAt = performance.now()
    sink.connection = this
    const { connectMs, firstByteMs, betweenBytesMs, totalMs } = outgoing.limits
    this.#owner.ticker.refine(Math.min(connectMs, firstByteMs, betweenBytesMs, totalMs))
    if (this.#phase === 'idle') this.#write(outgoing)
  }

  /** Drops the answer. The engine notices by the closed connection. */
  cancel(): void {
    this.#reader.stop()
    this.#drop()
  }

  /** Closes the connection and fails the pending request. */
  async abort(detail: string): Promise<void> {
    const closed = this.#socket.closed ? undefined : once(this.#socket, 'close')
    this.#fail('broken', detail)
    await closed
  }

  pause(): void {
    if (this.#isPaused || this.#phase !== 'busy') return
    this.#isPaused = true
    this.#socket.pause()
  }

  resume(): void {
    if (!this.#isPaused || this.#phase === 'closed') return
    this.#isPaused = false
    this.#hasRead = true
    this.#socket.resume()
  }

  /** Limits the time for the remaining answer. */
  limitRest(restMs: number): void {
    const totalMs = Math.min(this.#limits.totalMs, performance.now() - this.#startedAt + restMs)
    this.#limits = { ...this.#limits, totalMs }
    this.#owner.ticker.refine(restMs)
  }

  onHead(head: ResponseHead): void {
    this.#head = head
    // Frees the request while the answer streams: a prompt may be large and its answer long.
    this.#outgoing = undefined
    this.#sink?.onHead(head)
  }

  onData(bytes: Buffer): void {
    this.#hasBody = true
    this.#sink?.onData(bytes)
  }

  tick(now: number): void {
    if (this.#phase === 'idle') {
      if (now >= this.idleUntil) this.#drop()
      return
    }
    const { connectMs, firstByteMs, betweenBytesMs, totalMs } = this.#limits
    const sinceStart = now - this.#startedAt
    if (this.#phase === 'connecting') {
      if (sinceStart >= connectMs) this.#fail('connect_timeout', `no connection within ${connectMs} ms`)
      return
    }
    if (sinceStart >= totalMs) return this.#fail('total', `not complete within ${Math.round(totalMs)} ms`)
    if (this.#hasRead || this.#isPaused) {
      this.#hasRead = false
      this.#quietSince = now
    }
    if (this.#head !== undefined && now - this.#quietSince < betweenBytesMs) return
    if (this.#hasBody) this.#fail('quiet', `no data for ${betweenBytesMs} ms`)
    else if (sinceStart >= firstByteMs) this.#fail('first_byte_timeout', `no answer within ${firstByteMs} ms`)
  }

  #openAny(address: Address, options: SocketOptions, session: Buffer | undefined): Duplex {
    if (address.kind === 'link') return this.#openLink(address, options)
    return address.kind === 'tcp' && address.tls
      ? this.#openTls(address, options, session)
      : this.#open(address, options)
  }

  /** The stream can be written to at once; if the port does not answer, it ends with an error. */
  #openLink(address: LinkAddress, { dial }: SocketOptions): Duplex {
    if (dial === undefined) throw new Error('this gateway reaches no hosts')
    const stream = dial(address)
    stream.on('data', (bytes: Buffer) => this.#read(bytes, bytes.length))
    queueMicrotask(() => this.#connected())
    return stream
  }

  #open(address: Exclude<Address, LinkAddress>, { lookup }: SocketOptions): Duplex {
    const onread = {
      buffer: readBuffer,
      callback: (length: number): boolean => {
        this.#read(readBuffer, length)
        return true
      },
    }
    const socket =
      address.kind === 'unix'
        ? net.connect({ path: address.path, onread })
        : net.connect({
            host: address.host,
            port: address.port,
            noDelay: true,
            onread,
            ...(lookup === undefined ? {} : { lookup }),
          })
    return socket.on('connect', () => this.#connected())
  }

  #openTls(to: { host: string; port: number }, { lookup, ca }: SocketOptions, session: Buffer | undefined): Duplex {
    const socket = tls.connect({
      host: to.host,
      port: to.port,
      ALPNProtocols: ['http/1.1'],
      // There is no server name to send for an IP address.
      ...(net.isIP(to.host) === 0 ? { servername: to.host } : {}),
      ...(session === undefined ? {} : { session }),
      ...(lookup === undefined ? {} : { lookup }),
      ...(ca === undefined ? {} : { ca }),
    })
    socket.setNoDelay(true)
    socket.on('session', (one) => this.#owner.keepSession(one))
    socket.on('data', (bytes) => this.#read(bytes, bytes.length))
    return socket.on('secureConnect', () => this.#connected())
  }

  #connected(): void {
    if (this.#phase !== 'connecting') return
    this.#phase = 'idle'
    if (this.#outgoing !== undefined) this.#write(this.#outgoing)
  }

  #write({ head, body }: Outgoing): void {
    const socket = this.#socket
    this.#phase = 'busy'
    this.#quietSince = this.#startedAt
    if (body.length === 0) return void socket.write(head, 'latin1')
    if (sizeOf(body) <= JOINED_BYTES) {
      // One small string costs half as much to write as several pieces.
      let text = head
      for (const piece of body) text += typeof piece === 'string' ? piece : asBuffer(piece).toString('latin1')
      return void socket.write(text, 'latin1')
    }
    socket.cork()
    socket.write(head, 'latin1')
    for (const piece of body) socket.write(piece, 'latin1')
    socket.uncork()
  }

  readonly #read = contained(
    (error) => this.#fail('broken', error.message),
    (bytes: Buffer, length: number) => this.#take(bytes, length),
  )

  #take(bytes: Buffer, length: number): void {
    // Bytes without a request: the server closes with an error, or sends something unexpected.
    if (this.#phase !== 'busy') return this.#drop()
    this.#hasRead = true
    const used = this.#reader.push(bytes, length)
    // The sink may have cancelled during the call.
    if (this.#sink === undefined) return
    if (this.#reader.fault !== undefined) this.#fail('broken', this.#reader.fault)
    else if (this.#reader.ended) this.#finish(used === length)
  }

  #finish(isClean: boolean): void {
    const sink = this.#sink
    const head = this.#head
    this.#clear()
    this.#answers += 1
    // If the answer came before the request was sent completely, the rest of the request blocks the connection.
    if (isClean && head?.keepAlive === true && this.#socket.writableLength === 0) {
      this.#reader.reset()
      this.#phase = 'idle'
      if (this.#isPaused) this.resume()
      this.#owner.release(this, head.keepAliveMs)
    } else this.#drop()
    sink?.onEnd()
  }

  /** The socket has closed, with or without an error. `isLinkLost`: the engine did not cause it. */
  #lose(detail: string, isLinkLost = false): void {
    if (this.#phase === 'closed') return
    if (this.#phase === 'connecting') return this.#fail('connect', detail)
    if (this.#sink === undefined) return this.#drop()
    this.#reader.close()
    if (this.#reader.ended) return this.#finish(false)
    const outgoing = this.#outgoing
    if (this.#answers === 0 || this.#reader.begun || outgoing === undefined) {
      if (isLinkLost && !this.#reader.begun) return this.#fail('connect', detail)
      return this.#fail('broken', this.#reader.begun ? `${detail} during the answer` : `${detail} before the answer`)
    }
    const sink = this.#sink
    this.#drop()
    this.#owner.resend(sink, outgoing)
  }

  #fail(kind: FaultKind, detail: string): void {
    const sink = this.#sink
    this.#drop()
    sink?.onFault(kind, detail)
  }

  #drop(): void {
    if (this.#phase === 'closed') return
    this.#phase = 'closed'
    this.#clear()
    this.#owner.ticker.remove(this)
    this.#owner.forget(this)
    this.#socket.destroy()
  }

  #clear(): void {
    if (this.#sink !== undefined) this.#sink.connection = undefined
    this.#sink = undefined
    this.#outgoing = undefined
    this.#head = undefined
    this.#hasBody = false
  }
}

/** A connection attempt to several addresses fails with an error that has only a code. */
function describe(error: Error & { code?: string }): string {
  return error.message === '' ? (error.code ?? error.name) : error.message
}

function sizeOf(pieces: Outgoing['body']): number {
  let bytes = 0
  for (const piece of pieces) bytes += piece.length
  return bytes
}

function asBuffer(piece: Uint8Array): Buffer {
  return Buffer.isBuffer(piece) ? piece : Buffer.from(piece.buffer, piece.byteOffset, piece.length)
}
