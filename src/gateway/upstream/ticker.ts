/**
 * One timer for the time limits of all connections: 0.1 µs per request, where setting and clearing three timers takes
 * 2.6. Every 100 ms, each connection checks its own limits. A limit is detected one or two ticks late, never early;
 * short limits shorten the ticks.
 */

export interface Ticking {
  /** Index in the list; -1: not in it. Only the ticker writes it. */
  place: number
  tick(now: number): void
}

const MAX_TICK_MS = 100
const MIN_TICK_MS = 5
const TICKS_PER_LIMIT = 5
const LATE_TICKS = 3

export class Ticker {
  readonly #entries: Ticking[] = []
  #timer: NodeJS.Timeout | undefined
  #everyMs = MAX_TICK_MS
  #now = 0
  #hasSkipped = false

  /** The time of the last tick: cheap, and precise to one tick. */
  get now(): number {
    return this.#timer === undefined ? performance.now() : this.#now
  }

  add(entry: Ticking): void {
    if (entry.place !== -1) return
    entry.place = this.#entries.push(entry) - 1
    if (this.#timer === undefined) this.#start(MAX_TICK_MS)
  }

  remove(entry: Ticking): void {
    const { place } = entry
    if (place === -1) return
    const last = this.#entries.pop()
    if (last !== undefined && last !== entry) {
      this.#entries[place] = last
      last.place = place
    }
    entry.place = -1
  }

  /** An entry has a limit of this length. */
  refine(limitMs: number): void {
    if (limitMs >= this.#everyMs * TICKS_PER_LIMIT || this.#everyMs === MIN_TICK_MS) return
    this.#start(Math.max(MIN_TICK_MS, limitMs / TICKS_PER_LIMIT))
  }

  close(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #start(everyMs: number): void {
    clearInterval(this.#timer)
    this.#everyMs = everyMs
    this.#now = performance.now()
    this.#timer = setInterval(() => this.#tick(), everyMs).unref()
  }

  #tick(): void {
    if (this.#entries.length === 0) return this.close()
    const before = this.#now
    this.#now = performance.now()
    // A very late tick means that this process was blocked and the engines' bytes lie unread: skip it, once.
    this.#hasSkipped = !this.#hasSkipped && this.#now - before > this.#everyMs * LATE_TICKS
    if (this.#hasSkipped) return
    // Backwards, so that removing an entry moves only one that was already called.
    for (let n = this.#entries.length - 1; n >= 0; n -= 1) this.#entries[n]?.tick(this.#now)
  }
}
