/**
 * One timer for every limit. Setting and clearing several timers for each request costs more than reading its answer;
 * instead, whatever has limits stands in a list and is asked every 100 ms whether one is over. A limit may so be found
 * late by a tick or two, never early. Small limits make the ticks finer while they are in use.
 */

export interface Ticking {
  /** Where it stands in the list; -1: it does not. Only the ticker writes it. */
  place: number
  tick(now: number): void
}

const COARSE_MS = 100
const FINEST_MS = 5
const TICKS_PER_LIMIT = 5
const LATE_TICKS = 3

export class Ticker {
  readonly #entries: Ticking[] = []
  #timer: NodeJS.Timeout | undefined
  #everyMs = COARSE_MS
  #now = 0
  #hasSkipped = false

  /** The time of the last tick, for those whom a tick more or less does not matter. */
  get now(): number {
    return this.#timer === undefined ? performance.now() : this.#now
  }

  add(entry: Ticking): void {
    if (entry.place !== -1) return
    entry.place = this.#entries.push(entry) - 1
    if (this.#timer === undefined) this.#start(COARSE_MS)
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

  /** Somebody in the list has a limit of this length. */
  refine(limitMs: number): void {
    if (limitMs >= this.#everyMs * TICKS_PER_LIMIT || this.#everyMs === FINEST_MS) return
    this.#start(Math.max(FINEST_MS, limitMs / TICKS_PER_LIMIT))
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
    // A tick that comes far too late tells of this process, not of the engines: what they sent lies unread. Once.
    this.#hasSkipped = !this.#hasSkipped && this.#now - before > this.#everyMs * LATE_TICKS
    if (this.#hasSkipped) return
    // From the end, so that one who leaves puts only one who was asked already in its place.
    for (let n = this.#entries.length - 1; n >= 0; n -= 1) this.#entries[n]?.tick(this.#now)
  }
}
