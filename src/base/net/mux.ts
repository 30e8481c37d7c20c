/**
 * Multiplexes streams over one message connection. Each stream is a Duplex whose sides end separately, and can carry
 * small JSON values (signals) beside its bytes. Flow control is per stream: the sender may send one window, and more
 * when the reader grants credit, so a slow reader blocks no other stream and memory is bounded. Streams with data to
 * send take turns, one frame each.
 *
 * A frame is one byte for the type, four for the stream, and the payload:
 *
 *   open    request, as JSON                end     no more bytes from this side
 *   data    bytes                           reset   closed both ways; reason, as text
 *   credit  number of bytes granted         signal  JSON
 *
 * Streams opened by the client have odd numbers, those opened by the server even ones, always increasing.
 */
import { Duplex } from 'node:stream'
import { MuxClosed, resetError, resetReason } from './mux-closed.ts'

export interface MuxStream extends Duplex {
  /** Sends a small value, which can overtake the bytes. The other side emits `signal`; too long a value ends both. */
  sendSignal(value: unknown): void
}

export interface Mux {
  /** Opens a stream; the other side receives `request`. If none can be opened, the stream ends with an error. */
  open(request: unknown): MuxStream
  receive(frame: Buffer): void
  /** Call when the transport has drained. Otherwise the mux checks a moment later. */
  flush(): void
  /** Ends all streams with an error. Nothing more is sent. */
  close(reason?: string): void
  readonly streams: number
}

export interface MuxOptions {
  send(frame: Buffer): void
  /** Bytes buffered in the transport; above the limit, streams wait. */
  backlog?(): number
  readonly side: 'client' | 'server'
  readonly maxStreams?: number
  /** Without it the other side cannot open streams; trying to is a protocol error. */
  accept?(request: unknown, stream: MuxStream): void
  /** Protocol error, or the other side does not read. The mux is closed; the caller should close the transport. */
  failed?(error: Error): void
}

/** The most requests that a gateway sends to one engine at once, which may all go to one host. */
const MAX_STREAMS = 4_096
const MAX_DATA_BYTES = 32_768
/** Maximum in flight in one direction of a stream: bytes plus an overhead per frame. */
const WINDOW = 262_144
/** Even a frame of one byte takes memory. */
const FRAME_COST = 64
/** Credit is granted in steps of this size, not with every read. */
const CREDIT_STEP = WINDOW / 4
const MAX_OPEN_BYTES = 65_536
const MAX_SIGNAL_BYTES = 16_384
const MAX_REASON_BYTES = 2_000
const PAUSE_BACKLOG_BYTES = 262_144
const BACKLOG_POLL_MS = 5
/** Control frames do not wait for room, so a peer that triggers them without reading is disconnected here. */
const MAX_BACKLOG_BYTES = 16_777_216
const LAST_ID = 0xffff_ffff
const HEAD_BYTES = 5

const types = { open: 1, data: 2, credit: 3, end: 4, reset: 5, signal: 6 } as const
type FrameType = keyof typeof types
const typeOf = new Map<number, FrameType>(Object.entries(types).map(([name, byte]) => [byte, name as FrameType]))
const maxBytes: Readonly<Record<FrameType, number>> = {
  open: MAX_OPEN_BYTES,
  data: MAX_DATA_BYTES,
  credit: 4,
  end: 0,
  reset: MAX_REASON_BYTES,
  signal: MAX_SIGNAL_BYTES,
}

export function makeMux(options: MuxOptions): Mux {
  return new MuxOfStreams(options)
}

class MuxOfStreams implements Mux {
  readonly #options: MuxOptions & { readonly maxStreams: number }
  readonly #all = new Map<number, Stream>()
  /** Streams that may have data to send, in turn order. */
  readonly #ready = new Set<Stream>()
  #nextId: number
  #lastTheirs = 0
  #isClosed = false
  #isPumping = false
  #retryTimer: NodeJS.Timeout | undefined

  constructor(options: MuxOptions) {
    this.#options = { maxStreams: MAX_STREAMS, ...options }
    this.#nextId = options.side === 'client' ? 1 : 2
  }

  get streams(): number {
    return this.#all.size
  }

  open(request: unknown): MuxStream {
    const payload = encodeOpen(request)
    const id = this.#nextId
    const refused = this.#isClosed
      ? 'the connection is closed'
      : this.#all.size >= this.#options.maxStreams || id > LAST_ID
        ? 'there are too many streams on this connection'
        : undefined
    const stream = new Stream(id, this)
    if (refused !== undefined) {
      stream.cut(this.#isClosed ? new MuxClosed(refused) : new Error(refused))
      return stream
    }
    this.#nextId += 2
    this.#all.set(id, stream)
    this.send('open', id, payload)
    return stream
  }

  receive(frame: Buffer): void {
    if (this.#isClosed) return
    const fault = this.#take(frame)
    if (fault !== undefined) this.#fail(fault)
  }

  flush(): void {
    if (this.#ready.size > 0) this.#pump()
  }

  close(reason = 'the connection was closed'): void {
    if (this.#isClosed) return
    this.#isClosed = true
    clearTimeout(this.#retryTimer)
    this.#ready.clear()
    const streams = [...this.#all.values()]
    this.#all.clear()
    for (const stream of streams) stream.cut(new MuxClosed(reason))
  }

  send(type: FrameType, id: number, payload: Buffer = Buffer.alloc(0)): void {
    if (this.#isClosed) return
    if ((this.#options.backlog?.() ?? 0) >= MAX_BACKLOG_BYTES) return this.#fail('the other side does not read')
    const frame = Buffer.allocUnsafe(HEAD_BYTES + payload.length)
    frame.writeUInt8(types[type], 0)
    frame.writeUInt32BE(id, 1)
    payload.copy(frame, HEAD_BYTES)
    this.#options.send(frame)
  }

  #fail(fault: string): void {
    this.close(fault)
    this.#options.failed?.(new Error(fault))
  }

  hasBytes(stream: Stream): void {
    this.#ready.add(stream)
    this.#pump()
  }

  leave(stream: Stream, reason: string): void {
    this.#ready.delete(stream)
    if (this.#all.get(stream.id) !== stream) return
    this.#all.delete(stream.id)
    if (!stream.isOver) this.send('reset', stream.id, Buffer.from(reason).subarray(0, MAX_REASON_BYTES))
  }

  #pump(): void {
    if (this.#isPumping) return
    this.#isPumping = true
    try {
      for (const stream of this.#ready) {
        if ((this.#options.backlog?.() ?? 0) >= PAUSE_BACKLOG_BYTES) return this.#retryLater()
        this.#ready.delete(stream)
        const piece = stream.takePiece()
        if (piece === undefined) continue
        this.send('data', stream.id, piece)
        // Moves to the end of the queue, which this loop reaches too.
        if (stream.hasMore) this.#ready.add(stream)
        stream.wasSent()
      }
    } finally {
      this.#isPumping = false
    }
  }

  #retryLater(): void {
    this.#retryTimer ??= setTimeout(() => {
      this.#retryTimer = undefined
      this.flush()
    }, BACKLOG_POLL_MS)
  }

  /** Returns the fault in the frame, if any. */
  #take(frame: Buffer): string | undefined {
    if (frame.length < HEAD_BYTES) return 'a frame was too short'
    const type = typeOf.get(frame.readUInt8(0))
    if (type === undefined) return 'a frame has an unknown type'
    const id = frame.readUInt32BE(1)
    const payload = frame.subarray(HEAD_BYTES)
    if (payload.length > maxBytes[type]) return `a frame of type ${type} was too long`
    if (type === 'open') return this.#takeOpen(id, payload)
    const stream = this.#all.get(id)
    // Frames and a reset can cross in flight.
    if (stream === undefined) return this.#wasOpen(id) ? undefined : `stream ${id} was never opened`
    switch (type) {
      case 'data':
        return stream.takeData(payload)
      case 'credit':
        return payload.length === 4 ? stream.takeCredit(payload.readUInt32BE(0)) : 'a credit frame was too short'
      case 'end':
        return stream.takeEnd()
      case 'signal':
        return takeJson(payload, (value) => void stream.emit('signal', value))
      case 'reset':
        this.#all.delete(id)
        stream.cut(resetError(payload.toString()))
        return undefined
    }
  }

  #takeOpen(id: number, payload: Buffer): string | undefined {
    if (this.#options.accept === undefined) return 'this side does not accept streams'
    if (this.#isOurs(id) || id <= this.#lastTheirs) return `stream ${id} cannot be opened`
    this.#lastTheirs = id
    return takeJson(payload, (request) => {
      if (this.#all.size >= this.#options.maxStreams) {
        return this.send('reset', id, Buffer.from('there are too many streams on this connection'))
      }
      const stream = new Stream(id, this)
      this.#all.set(id, stream)
      this.#options.accept?.(request, stream)
    })
  }

  #isOurs(id: number): boolean {
    return id % 2 === this.#nextId % 2
  }

  #wasOpen(id: number): boolean {
    return id > 0 && (this.#isOurs(id) ? id < this.#nextId : id <= this.#lastTheirs)
  }
}

class Stream extends Duplex implements MuxStream {
  readonly id: number
  readonly #mux: MuxOfStreams
  /** Bytes the other side currently accepts. */
  #credit = WINDOW
  #outgoing: Buffer | undefined
  #written: ((error?: Error) => void) | undefined
  readonly #incoming: Buffer[] = []
  /** Received bytes: not yet read, and read but not yet credited. */
  #unread = 0
  #uncredited = 0
  #isWanted = false
  #endSent = false
  #endTaken = false

  constructor(id: number, mux: MuxOfStreams) {
    super({ allowHalfOpen: true, readableHighWaterMark: MAX_DATA_BYTES, writableHighWaterMark: MAX_DATA_BYTES })
    this.id = id
    this.#mux = mux
    // The other side can reset a stream at any time; without a listener the error would crash the process.
    this.on('error', () => {})
  }

  /** Both sides have ended the stream: nothing more is sent. */
  get isOver(): boolean {
    return this.#endSent && this.#endTaken
  }

  get hasMore(): boolean {
    return this.#outgoing !== undefined
  }

  sendSignal(value: unknown): void {
    const payload = Buffer.from(JSON.stringify(value) ?? 'null')
    // A value that is passed on can be longer than it was: 1e20 has more digits here.
    if (payload.length > MAX_SIGNAL_BYTES) this.destroy(new RangeError('the value does not fit into a frame'))
    if (!this.destroyed && !this.isOver) this.#mux.send('signal', this.id, payload)
  }

  /** Ends the stream on behalf of the other side, and sends nothing. */
  cut(error: Error): void {
    this.#endSent = true
    this.#endTaken = true
    this.destroy(error)
  }

  /** The next bytes to send. undefined: none, or no credit. */
  takePiece(): Buffer | undefined {
    const room = Math.min(MAX_DATA_BYTES, this.#credit - FRAME_COST)
    if (this.#outgoing === undefined || room <= 0) return undefined
    const piece = this.#outgoing.subarray(0, room)
    this.#outgoing = piece.length < this.#outgoing.length ? this.#outgoing.subarray(room) : undefined
    this.#credit -= costOf(piece)
    return piece
  }

  wasSent(): void {
    if (this.#outgoing !== undefined) return
    const written = this.#written
    this.#written = undefined
    written?.()
  }

  takeData(piece: Buffer): string | undefined {
    if (this.#endTaken) return 'bytes arrived after the end of the stream'
    if (piece.length === 0) return 'a frame of type data was empty'
    this.#unread += costOf(piece)
    if (this.#unread + this.#uncredited > WINDOW) return 'more bytes arrived than the window allows'
    this.#incoming.push(piece)
    this.#deliver()
    return undefined
  }

  takeCredit(credit: number): string | undefined {
    this.#credit += credit
    if (this.#credit > WINDOW) return 'more credit was granted than the window allows'
    if (this.hasMore) this.#mux.hasBytes(this)
    return undefined
  }

  takeEnd(): string | undefined {
    if (this.#endTaken) return 'a stream ended twice'
    this.#endTaken = true
    this.#deliver()
    return undefined
  }

  override _read(): void {
    this.#isWanted = true
    this.#deliver()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, written: (error?: Error | null) => void): void {
    if (chunk.length === 0) return written()
    this.#outgoing = chunk
    this.#written = written
    this.#mux.hasBytes(this)
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#mux.send('end', this.id)
    this.#endSent = true
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const written = this.#written
    this.#written = undefined
    this.#outgoing = undefined
    this.#incoming.length = 0
    this.#mux.leave(this, resetReason(error))
    written?.(error ?? new Error('the stream was closed'))
    done(error)
  }

  #deliver(): void {
    while (this.#isWanted && !this.destroyed) {
      const piece = this.#incoming.shift()
      if (piece === undefined) break
      this.#unread -= costOf(piece)
      this.#uncredited += costOf(piece)
      this.#isWanted = this.push(piece)
    }
    if (this.destroyed) return
    if (this.#endTaken) {
      if (this.#incoming.length === 0) this.push(null)
      return
    }
    if (this.#uncredited < CREDIT_STEP) return
    const credit = Buffer.alloc(4)
    credit.writeUInt32BE(this.#uncredited)
    this.#uncredited = 0
    this.#mux.send('credit', this.id, credit)
  }
}

function costOf(piece: Buffer): number {
  return piece.length + FRAME_COST
}

function encodeOpen(request: unknown): Buffer {
  const payload = Buffer.from(JSON.stringify(request) ?? 'null')
  if (payload.length > MAX_OPEN_BYTES) throw new RangeError(`the request does not fit into ${MAX_OPEN_BYTES} bytes`)
  return payload
}

function takeJson(payload: Buffer, take: (value: unknown) => void): string | undefined {
  let value: unknown
  try {
    value = JSON.parse(payload.toString())
  } catch {
    return 'a frame contains invalid JSON'
  }
  take(value)
  return undefined
}
