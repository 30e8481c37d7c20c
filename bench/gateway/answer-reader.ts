/**
 * Reads the load generator's responses: Content-Length or chunks only. Independent of the gateway's own reader, so that
 * a fault there cannot hide here. Throws on anything malformed.
 */

const END_OF_HEAD = '\r\n\r\n'
const END_OF_LINE = '\r\n'

type Phase = 'head' | 'length' | 'size' | 'chunk' | 'last' | 'ended'

export class AnswerReader {
  #phase: Phase = 'head'
  #unread = ''
  /** Bytes left of the body or chunk, including the line end after a chunk. */
  #left = 0
  #status = 0
  #body = ''
  #isLast = false

  get status(): number {
    return this.#status
  }

  /** One character per byte. */
  get body(): string {
    return this.#body
  }

  get isEnded(): boolean {
    return this.#phase === 'ended'
  }

  /** The server closes the connection after this response. */
  get isLast(): boolean {
    return this.#isLast
  }

  reset(): void {
    this.#phase = 'head'
    this.#body = ''
  }

  push(piece: string): void {
    this.#unread = this.#unread === '' ? piece : this.#unread + piece
    while (this.#step());
    if (this.isEnded && this.#unread !== '') throw new Error('bytes behind the end of an answer')
  }

  /** false: needs more data. */
  #step(): boolean {
    switch (this.#phase) {
      case 'head':
        return this.#readHead()
      case 'length':
        return this.#readLength()
      case 'size':
        return this.#readSize()
      case 'chunk':
        return this.#readChunk()
      case 'last':
        return this.#readLast()
      case 'ended':
        return false
    }
  }

  #readHead(): boolean {
    const end = this.#unread.indexOf(END_OF_HEAD)
    if (end === -1) return false
    const head = this.#unread.slice(0, end)
    this.#unread = this.#unread.slice(end + END_OF_HEAD.length)
    const [, status] = /^HTTP\/1\.1 (\d{3})/.exec(head) ?? []
    if (status === undefined) throw new Error(`no HTTP: ${head.slice(0, 80)}`)
    this.#status = Number.parseInt(status, 10)
    this.#isLast = /\r\nconnection: *close/i.test(head)
    const [, length] = /\r\ncontent-length: *(\d+)/i.exec(head) ?? []
    if (length !== undefined) {
      this.#left = Number.parseInt(length, 10)
      this.#phase = this.#left === 0 ? 'ended' : 'length'
    } else if (/\r\ntransfer-encoding: *chunked/i.test(head)) this.#phase = 'size'
    else throw new Error(`an answer without a length: ${head.slice(0, 200)}`)
    return true
  }

  #readLength(): boolean {
    if (this.#unread === '') return false
    this.#take(this.#left)
    if (this.#left === 0) this.#phase = 'ended'
    return this.#left === 0
  }

  #readSize(): boolean {
    const end = this.#unread.indexOf(END_OF_LINE)
    if (end === -1) return false
    const digits = this.#unread.slice(0, end)
    if (!/^[0-9a-fA-F]{1,8}$/.test(digits)) throw new Error(`not the size of a chunk: ${digits.slice(0, 40)}`)
    this.#unread = this.#unread.slice(end + END_OF_LINE.length)
    this.#left = Number.parseInt(digits, 16)
    this.#phase = this.#left === 0 ? 'last' : 'chunk'
    return true
  }

  #readChunk(): boolean {
    if (this.#left > 0) {
      if (this.#unread === '') return false
      this.#take(this.#left)
      if (this.#left > 0) return false
    }
    return this.#readLineEnd('size')
  }

  #readLast(): boolean {
    return this.#readLineEnd('ended')
  }

  #readLineEnd(next: Phase): boolean {
    if (this.#unread.length < END_OF_LINE.length) return false
    if (!this.#unread.startsWith(END_OF_LINE)) throw new Error('a chunk is longer than it said')
    this.#unread = this.#unread.slice(END_OF_LINE.length)
    this.#phase = next
    return true
  }

  #take(most: number): void {
    const taken = this.#unread.length <= most ? this.#unread : this.#unread.slice(0, most)
    this.#unread = this.#unread.length <= most ? '' : this.#unread.slice(most)
    this.#left -= taken.length
    this.#body = this.#body === '' ? taken : this.#body + taken
  }
}
