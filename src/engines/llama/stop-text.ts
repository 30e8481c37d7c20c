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
  #held = ''

  constructor(stops: readonly string[]) {
    this.#stops = stops
  }

  push(text: string): Released {
    const all = this.#held + text
    const found = this.#stops.map((stop) => all.indexOf(stop)).filter((at) => at >= 0)
    if (found.length > 0) {
      this.#held = ''
      return { text: all.slice(0, Math.min(...found)), stopped: true }
    }
    const held = this.#heldChars(all)
    this.#held = all.slice(all.length - held)
    return { text: all.slice(0, all.length - held), stopped: false }
  }

  /** The text is complete, so the held-back part is not a stop text. */
  end(): string {
    const rest = this.#held
    this.#held = ''
    return rest
  }

  /** Length of the longest suffix that begins a stop text. */
  #heldChars(text: string): number {
    let most = 0
    for (const stop of this.#stops) {
      let length = Math.min(stop.length - 1, text.length)
      while (length > most && !text.endsWith(stop.slice(0, length))) length -= 1
      most = Math.max(most, length)
    }
    return most
  }
}
