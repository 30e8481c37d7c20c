/** Just enough HTTP for an engine on raw sockets: finds the end of a request, and writes a stream word by word. */
import type { Socket } from 'node:net'

const END_OF_HEAD = '\r\n\r\n'
/** JSON escapes every line end, so this can only be the end of a chunked body. */
const END_OF_CHUNKS = '\r\n0\r\n\r\n'
const MAX_KEPT_BYTES = 2_048

export interface ReadRequest {
  readonly isGet: boolean
  readonly isStream: boolean
}

/** Words are never sent together: a late stream stays late. */
export function writeWords(socket: Socket, pieces: readonly Buffer[], everyMs: number, from = 0): void {
  const piece = pieces[from]
  if (piece === undefined || socket.destroyed) return
  socket.write(piece)
  if (from + 1 < pieces.length) setTimeout(() => writeWords(socket, pieces, everyMs, from + 1), everyMs)
}

/** The part of the current request read so far. */
export class RequestReader {
  readonly #done: (request: ReadRequest) => void
  #head = ''
  #bodyLeft = 0
  /** The start of the body: enough for short ones, and cheap for long ones. */
  #body = ''
  /** The last bytes of a chunked body; undefined: the body has a length. */
  #chunkTail: string | undefined

  constructor(done: (request: ReadRequest) => void) {
    this.#done = done
  }

  read(bytes: Buffer, length: number): void {
    let at = 0
    while (at < length) {
      if (this.#chunkTail !== undefined) at = this.#readChunked(bytes, at, length)
      else if (this.#bodyLeft > 0) at = this.#readBody(bytes, at, length)
      else at = this.#readHead(bytes, at, length)
    }
  }

  #readHead(bytes: Buffer, at: number, length: number): number {
    const before = this.#head.length
    const text = this.#head + bytes.toString('latin1', at, length)
    const end = text.indexOf(END_OF_HEAD, Math.max(0, before - END_OF_HEAD.length))
    if (end === -1) {
      this.#head = text
      return length
    }
    this.#head = ''
    const head = text.slice(0, end)
    const [, digits] = /\r\ncontent-length: *(\d+)/i.exec(head) ?? []
    if (/\r\ntransfer-encoding: *chunked/i.test(head)) this.#chunkTail = END_OF_HEAD.slice(2)
    else if (digits === undefined || digits === '0') this.#finish(head.startsWith('GET '))
    else this.#bodyLeft = Number.parseInt(digits, 10)
    return at + end + END_OF_HEAD.length - before
  }

  #readBody(bytes: Buffer, at: number, length: number): number {
    const taken = Math.min(this.#bodyLeft, length - at)
    this.#bodyLeft -= taken
    this.#keep(bytes, at, at + taken)
    if (this.#bodyLeft === 0) this.#finish(false)
    return at + taken
  }

  #keep(bytes: Buffer, from: number, to: number): void {
    const room = MAX_KEPT_BYTES - this.#body.length
    if (room > 0) this.#body += bytes.toString('latin1', from, Math.min(to, from + room))
  }

  #finish(isGet: boolean): void {
    const isStream = this.#body.includes('"stream":true')
    this.#body = ''
    this.#done({ isGet, isStream })
  }

  /** Requests are not pipelined, so the end of the chunks is the end of the data. */
  #readChunked(bytes: Buffer, at: number, length: number): number {
    const text = `${this.#chunkTail}${bytes.toString('latin1', Math.max(at, length - END_OF_CHUNKS.length), length)}`
    this.#keep(bytes, at, length)
    if (text.endsWith(END_OF_CHUNKS)) {
      this.#chunkTail = undefined
      this.#finish(false)
    } else this.#chunkTail = text.slice(-END_OF_CHUNKS.length)
    return length
  }
}
