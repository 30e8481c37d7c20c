/**
 * Turns tokens into text. A character or a stop text may span several tokens, so text comes out later than tokens go
 * in. Each token is returned with the first text that it is part of.
 */
import { StopText } from './stop-text.ts'

export interface TextPiece<T> {
  readonly text: string
  readonly tokens: readonly T[]
  readonly stopped: boolean
}

export class AnswerText<T> {
  // A byte order mark is ordinary text here.
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  readonly #stop: StopText
  #decodedChars = 0
  #releasedChars = 0
  #waiting: Array<{ readonly at: number; readonly token: T }> = []

  constructor(stops: readonly string[]) {
    this.#stop = new StopText(stops)
  }

  /** The position at which the text of the next token begins, in UTF-16 units. */
  get offset(): number {
    return this.#decodedChars
  }

  push(bytes: Uint8Array, token?: T): TextPiece<T> {
    if (token !== undefined) this.#waiting.push({ at: this.#decodedChars, token })
    const decoded = this.#decoder.decode(bytes, { stream: true })
    this.#decodedChars += decoded.length
    const { text, stopped } = this.#stop.push(decoded)
    const tokens = this.#release(text)
    if (stopped) this.#waiting = []
    return { text, stopped, tokens }
  }

  /** Bytes that never became a character are shown as U+FFFD. */
  end(): TextPiece<T> {
    const { text, stopped } = this.#stop.push(this.#decoder.decode())
    const whole = stopped ? text : text + this.#stop.end()
    const tokens = this.#release(whole)
    const lastTokens = stopped ? [] : this.#waiting.map(({ token }) => token)
    this.#waiting = []
    return { text: whole, stopped, tokens: [...tokens, ...lastTokens] }
  }

  #release(text: string): T[] {
    this.#releasedChars += text.length
    const count = this.#waiting.findIndex(({ at }) => at >= this.#releasedChars)
    return this.#waiting.splice(0, count < 0 ? this.#waiting.length : count).map(({ token }) => token)
  }
}
