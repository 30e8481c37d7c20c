/**
 * The answers of programs whose header lines end in LF alone, such as the web server of busybox. Browsers and curl accept
 * them, and RFC 9112 (2.2) allows it; node:http does so only with a parser that accepts much more, such as an answer with
 * both a length and chunks, with which one answer can be taken for two. So the lines of the head get the missing CR, the
 * strict parser reads the result, and the body passes untouched.
 *
 * node:http also waits forever after a 101 that it was not asked for, or that names no protocol. Here that is an error.
 */
import { Duplex } from 'node:stream'
import { contained } from './contained.ts'

const CR = 0x0d
const LF = 0x0a
/** Beyond this the parser has given up already. */
const MAX_HEAD_BYTES = 131_072
/** 100 Continue, 103 Early Hints and the like, before the answer itself. */
const MAX_INTERIM = 16

export class BadHead extends Error {}

export interface MendOptions {
  /** Whether a 101 is an allowed answer to the request. */
  readonly mayUpgrade?: boolean
}

/** Wraps a connection for an HTTP client. Closing the result closes the connection. */
export function mendHead(inner: Duplex, options: MendOptions = {}): Duplex {
  return new MendedHead(inner, options)
}

class MendedHead extends Duplex {
  readonly #inner: Duplex
  readonly #mayUpgrade: boolean
  /** undefined: the body has begun. */
  #head: number[] | undefined = []
  #interims = 0

  constructor(inner: Duplex, { mayUpgrade = false }: MendOptions) {
    super({ allowHalfOpen: true })
    this.#inner = inner
    this.#mayUpgrade = mayUpgrade
    // node:http detaches its own listener from a connection that it hands over.
    this.on('error', () => {})
    const end = (error?: Error): unknown => this.destroy(error)
    inner.on(
      'data',
      contained(end, (bytes: Buffer) => this.#take(bytes)),
    )
    inner.once('end', () => this.push(null))
    inner.on('error', end)
    inner.once('close', () => {
      if (!inner.readableEnded || !inner.writableFinished) this.destroy()
    })
    inner.pause()
  }

  override _read(): void {
    this.#inner.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#inner.write(chunk, done)
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#inner.end(done)
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#inner.destroy(error ?? undefined)
    done(error)
  }

  #take(bytes: Buffer): void {
    const mended = this.#head === undefined ? bytes : this.#mend(bytes)
    if (mended !== undefined && !this.push(mended)) this.#inner.pause()
  }

  /** undefined: the head is refused. */
  #mend(bytes: Buffer): Buffer | undefined {
    const mended: number[] = []
    for (const [at, byte] of bytes.entries()) {
      const head = this.#head
      if (head === undefined) return Buffer.concat([Buffer.from(mended), bytes.subarray(at)])
      const added = byte === LF && head.at(-1) !== CR ? [CR, LF] : [byte]
      head.push(...added)
      mended.push(...added)
      const fault = isComplete(head) ? this.#endHead(Buffer.from(head).toString('latin1')) : undefined
      if (fault !== undefined) return void this.destroy(fault)
      if (head.length > MAX_HEAD_BYTES) this.#head = undefined
    }
    return Buffer.from(mended)
  }

  #endHead(text: string): BadHead | undefined {
    const isSwitch = /^HTTP\/1\.\d 101/.test(text)
    if (isSwitch && !(this.#mayUpgrade && isUpgrade(text)))
      return new BadHead('the answer changes the protocol unasked')
    const isInterim = !isSwitch && /^HTTP\/1\.\d 1/.test(text)
    this.#interims += 1
    if (isInterim && this.#interims > MAX_INTERIM) return new BadHead('the answer does not begin')
    this.#head = isInterim ? [] : undefined
    return undefined
  }
}

/** Whether the last line is empty. */
function isComplete(head: readonly number[]): boolean {
  return head.length > 3 && head.at(-1) === LF && head.at(-3) === LF
}

/** Whether the answer switches protocols, decided as the parser of node:http does. */
function isUpgrade(head: string): boolean {
  const lists = [...head.matchAll(/^connection:(.*)$/gim)].flatMap(([, list = '']) => list.split(','))
  return /^upgrade:/im.test(head) && lists.some((one) => one.trim().toLowerCase() === 'upgrade')
}
