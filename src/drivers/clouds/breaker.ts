/**
 * The circuit breaker of one account. A vendor that fails repeatedly gets no requests for a while, so that its timeouts
 * do not hold up the loops; then one request tries it again. Only failures of the vendor count: a refusal is an answer.
 */
import { addMs, earlier, type Clock, type Instant } from '../../base/instant.ts'

const MAX_FAILURES = 5
const FIRST_PAUSE_MS = 15_000
const MAX_PAUSE_MS = 5 * 60_000

class CircuitOpen extends Error {}

export class Breaker {
  readonly #clock: Clock
  #failures = 0
  #openUntil: Instant | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Throws while the circuit is open. */
  check(): void {
    if (this.openUntil !== undefined)
      throw new CircuitOpen('The cloud failed repeatedly and is left alone for a while.')
  }

  /**
   * Called just before a request is sent; the caller must report the outcome. After a pause one request tries the
   * vendor, and the others wait for its outcome. A token that this request needs is a request of its own before it.
   */
  enter(): void {
    this.check()
    if (this.#openUntil !== undefined) this.#openUntil = addMs(this.#clock.now(), FIRST_PAUSE_MS)
  }

  succeeded(): void {
    this.#failures = 0
    this.#openUntil = undefined
  }

  failed(): void {
    this.#failures += 1
    if (this.#failures < MAX_FAILURES) return
    const now = this.#clock.now()
    const pauseMs = FIRST_PAUSE_MS * 2 ** Math.min(this.#failures - MAX_FAILURES, 10)
    this.#openUntil = earlier(addMs(now, pauseMs), addMs(now, MAX_PAUSE_MS))
  }

  /** Returns when the vendor is tried again. undefined: the circuit is closed. */
  get openUntil(): Instant | undefined {
    return this.#openUntil !== undefined && this.#clock.now() < this.#openUntil ? this.#openUntil : undefined
  }
}
