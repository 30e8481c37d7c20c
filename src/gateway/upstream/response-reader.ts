/**
 * Reads answers from the bytes of a connection, in whatever pieces they arrive. The payload of a chunked body is
 * compacted inside the read buffer, so that each read produces one `onData` instead of one per chunk: the buffer passed
 * in is overwritten. Never throws; anything that is not HTTP ends in a `fault`.
 */
import { assertNever } from '../../base/assert-never.ts'
import { parseHead, type ResponseHead } from './response-head.ts'

export interface ResponseEvents {
  onHead(head: ResponseHead): void
  /** The bytes are only valid during the call. */
  onData(bytes: Buffer): void
}

const MAX_HEAD_BYTES = 65_536
/** 100 Continue, 103 Early Hints and the like, before the answer itself. */
const MAX_INTERIM = 16
const MAX_SIZE_DIGITS = 12
/** Per answer, so that extensions cannot be sent without end. */
const MAX_EXTENSION_BYTES = 16_384
const MAX_TRAILER_BYTES = 16_384

const FIRST_HEAD_BUFFER_BYTES = 1_024

const END_OF_HEAD = Buffer.from('\r\n\r\n')
const BEGINNING = Buffer.from('HTTP/1.')
const CR = 0x0d
const LF = 0x0a
const TAB = 0x09
const SPACE = 0x20
const DELETE = 0x7f
const COLON = 0x3a
const SEMICOLON = 0x3b
const TOKEN_BYTES = new Set(
  Buffer.from("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
)

type Phase =
  | 'head'
  | 'length'
  | 'close'
  | 'size'
  | 'extension'
  | 'size_lf'
  | 'chunk'
  | 'chunk_cr'
  | 'chunk_lf'
  | 'trailer_start'
  | 'trailer_name'
  | 'trailer'
  | 'trailer_lf'
  | 'last_lf'
  | 'ended'
  | 'failed'
  | 'stopped'

export class ResponseReader {
  readonly #events: ResponseEvents
  #phase: Phase = 'head'
  /** The incomplete head so far. */
  #headBytes: Buffer | undefined
  #headLength = 0
  #interims = 0
  /** Remaining bytes of the body or chunk. */
  #bytesLeft = 0
  #sizeDigits = 0
  #extensionBytes = 0
  #trailerBytes = 0
  #begun = false
  #fault: string | undefined

  constructor(events: ResponseEvents) {
    this.#events = events
  }

  /** Why this is not a valid answer. undefined: no fault so far. */
  get fault(): string | undefined {
    return this.#fault
  }

  /** The answer is complete. */
  get ended(): boolean {
    return this.#phase === 'ended'
  }

  /** At least one byte of the answer has arrived. */
  get begun(): boolean {
    return this.#begun
  }

  /** Ready for the next answer on the same connection. */
  reset(): void {
    this.#phase = 'head'
    this.#headLength = 0
    this.#interims = 0
    this.#extensionBytes = 0
    this.#trailerBytes = 0
    this.#begun = false
    this.#fault = undefined
  }

  /** Emits no more events. */
  stop(): void {
    this.#phase = 'stopped'
  }

  /** Reads `bytes[0, end)` and returns how many bytes belong to the answer; any after that are unexpected. */
  push(bytes: Buffer, end: number): number {
    let at = 0
    this.#begun ||= end > 0
    while (this.#phase === 'head' && at < end) at = this.#readHead(bytes, at, end)
    if (at === end) return at
    if (this.#phase === 'length') {
      const length = Math.min(this.#bytesLeft, end - at)
      this.#bytesLeft -= length
      if (this.#bytesLeft === 0) this.#phase = 'ended'
      this.#events.onData(bytes.subarray(at, at + length))
      return at + length
    }
    if (this.#phase === 'close') {
      this.#events.onData(bytes.subarray(at, end))
      return end
    }
    return this.#readChunked(bytes, at, end)
  }

  /** The server has closed its side. */
  close(): void {
    if (this.#phase === 'close') this.#phase = 'ended'
    else if (this.#phase !== 'ended' && this.#phase !== 'stopped') {
      this.#fail(this.#begun ? 'the connection closed during the answer' : 'the connection closed before the answer')
    }
  }

  #fail(fault: string): void {
    this.#phase = 'failed'
    this.#fault ??= fault
  }

  /** Returns the position of the body. */
  #readHead(bytes: Buffer, at: number, end: number): number {
    if (this.#headLength === 0) {
      const headEnd = bytes.indexOf(END_OF_HEAD, at)
      // Bytes after `end` remain from an earlier read.
      if (headEnd !== -1 && headEnd + END_OF_HEAD.length <= end) {
        if (headEnd - at > MAX_HEAD_BYTES) this.#fail('the head is too long')
        else this.#takeHead(bytes, at, headEnd)
        return headEnd + END_OF_HEAD.length
      }
    }
    return this.#gatherHead(bytes, at, end)
  }

  /** Gathers a head that arrives in several reads. */
  #gatherHead(bytes: Buffer, at: number, end: number): number {
    const before = this.#headLength
    const room = MAX_HEAD_BYTES + END_OF_HEAD.length - before
    const length = Math.min(end - at, room)
    const gathered = this.#headRoom(before + length)
    bytes.copy(gathered, before, at, at + length)
    this.#headLength = before + length
    const headEnd = gathered.subarray(0, this.#headLength).indexOf(END_OF_HEAD, Math.max(0, before - 3))
    if (headEnd !== -1) {
      this.#headLength = 0
      this.#takeHead(gathered, 0, headEnd)
      return at + headEnd + END_OF_HEAD.length - before
    }
    // Fail on the first bytes that are not HTTP, not only when the head is full.
    const prefixLength = Math.min(this.#headLength, BEGINNING.length)
    if (BEGINNING.compare(gathered, 0, prefixLength, 0, prefixLength) !== 0) this.#fail('no status line')
    else if (length === room) this.#fail('the head is too long')
    return end
  }

  #headRoom(needed: number): Buffer {
    const old = this.#headBytes
    if (old !== undefined && old.length >= needed) return old
    let size = Math.max(old?.length ?? 0, FIRST_HEAD_BUFFER_BYTES)
    while (size < needed) size *= 2
    const grown = Buffer.allocUnsafe(size)
    old?.copy(grown, 0, 0, this.#headLength)
    this.#headBytes = grown
    return grown
  }

  #takeHead(bytes: Buffer, from: number, to: number): void {
    const head = parseHead(bytes.toString('latin1', from, to))
    if (typeof head === 'string') return this.#fail(head)
    if (head.status < 200) {
      this.#interims += 1
      if (head.status === 101) this.#fail('an unexpected protocol switch')
      else if (this.#interims > MAX_INTERIM) this.#fail('too many interim answers')
      return
    }
    this.#bytesLeft = head.length
    this.#sizeDigits = 0
    if (head.framing === 'none') this.#phase = 'ended'
    else if (head.framing === 'chunked') this.#phase = 'size'
    else this.#phase = head.framing
    this.#events.onHead(head)
  }

  /** The payload is compacted into `[first, filled)` of the read buffer. */
  #readChunked(bytes: Buffer, from: number, end: number): number {
    let at = from
    let first = 0
    let filled = 0
    while (at < end && this.#phase !== 'ended' && this.#phase !== 'failed' && this.#phase !== 'stopped') {
      if (this.#phase !== 'chunk') {
        this.#readMark(bytes[at] ?? 0)
        at += 1
        continue
      }
      const length = Math.min(this.#bytesLeft, end - at)
      if (filled === first) {
        first = at
        filled = at + length
      } else {
        bytes.copyWithin(filled, at, at + length)
        filled += length
      }
      at += length
      this.#bytesLeft -= length
      if (this.#bytesLeft === 0) this.#phase = 'chunk_cr'
    }
    if (filled > first) this.#events.onData(bytes.subarray(first, filled))
    return at
  }

  /** Reads one byte between the chunks. */
  #readMark(byte: number): void {
    switch (this.#phase) {
      case 'size':
        return this.#readSize(byte)
      case 'extension':
        if (byte === CR) this.#phase = 'size_lf'
        else if (!isText(byte)) this.#fail('an invalid character in a chunk extension')
        else if (++this.#extensionBytes > MAX_EXTENSION_BYTES) this.#fail('the chunk extensions are too long')
        return
      case 'size_lf':
        return this.#step(byte, LF, this.#bytesLeft === 0 ? 'trailer_start' : 'chunk')
      case 'chunk_cr':
        return this.#step(byte, CR, 'chunk_lf')
      case 'chunk_lf':
        this.#sizeDigits = 0
        return this.#step(byte, LF, 'size')
      case 'trailer_start':
        if (byte === CR) this.#phase = 'last_lf'
        else this.#readTrailer(isToken(byte), 'trailer_name')
        return
      case 'trailer_name':
        return this.#readTrailer(byte === COLON || isToken(byte), byte === COLON ? 'trailer' : 'trailer_name')
      case 'trailer':
        if (byte === CR) this.#phase = 'trailer_lf'
        else this.#readTrailer(isText(byte), 'trailer')
        return
      case 'trailer_lf':
        return this.#step(byte, LF, 'trailer_start')
      case 'last_lf':
        return this.#step(byte, LF, 'ended')
      case 'head':
      case 'length':
      case 'close':
      case 'chunk':
      case 'ended':
      case 'failed':
      case 'stopped':
        throw new Error(`unexpected phase ${this.#phase}`)
      default:
        return assertNever(this.#phase)
    }
  }

  #readTrailer(isValid: boolean, next: Phase): void {
    this.#trailerBytes += 1
    if (!isValid) this.#fail('an invalid trailer')
    else if (this.#trailerBytes > MAX_TRAILER_BYTES) this.#fail('the trailers are too long')
    else this.#phase = next
  }

  #step(byte: number, expectedByte: number, next: Phase): void {
    if (byte === expectedByte) this.#phase = next
    else this.#fail('a chunk longer or shorter than its size')
  }

  #readSize(byte: number): void {
    const digit = hexDigit(byte)
    if (digit !== -1) {
      this.#bytesLeft = this.#sizeDigits === 0 ? digit : this.#bytesLeft * 16 + digit
      this.#sizeDigits += 1
      if (this.#sizeDigits > MAX_SIZE_DIGITS) this.#fail('the chunk is too long')
    } else if (this.#sizeDigits === 0) this.#fail('a chunk without a size')
    else if (byte === CR) this.#phase = 'size_lf'
    else if (byte === SEMICOLON) this.#phase = 'extension'
    else this.#fail('an invalid chunk size')
  }
}

function isText(byte: number): boolean {
  return byte === TAB || (byte >= SPACE && byte !== DELETE)
}

function isToken(byte: number): boolean {
  return TOKEN_BYTES.has(byte)
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const lower = byte | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1
}
