/**
 * Ends a text at the first stop text, which may span tokens. A possible beginning of a stop text is held back until it
 * turns out not to be one, so no part of a stop text is ever sent.
 */

export interface Released {
  readonly text: string
  readonly stopped: boolean
}

export class StopText {
  readonly #stops: readonly string[]
  #heldText = ''

  constructor(stops: readonly string[]) {
    this.#stops = stops
  }

  push(text: string): Released {
    const all = this.#heldText + text
    const positions = this.#stops.map((stop) => all.indexOf(stop)).filter((at) => at >= 0)
    if (positions.length > 0) {
      this.#heldText = ''
      return { text: all.slice(0, Math.min(...positions)), stopped: true }
    }
    const heldLength = this.#heldChars(all)
    this.#heldText = all.slice(all.length - heldLength)
    return { text: all.slice(0, all.length - heldLength), stopped: false }
  }

  /** The text is complete, so the held-back part is not a stop text. */
  end(): string {
    const text = this.#heldText
    this.#heldText = ''
    return text
  }

  /** Length of the longest suffix that begins a stop text. */
  #heldChars(text: string): number {
    let longest = 0
    for (const stop of this.#stops) {
      let length = Math.min(stop.length - 1, text.length)
      while (length > longest && !text.endsWith(stop.slice(0, length))) length -= 1
      longest = Math.max(longest, length)
    }
    return longest
  }
}
