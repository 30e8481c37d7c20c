/**
 * A circuit breaker for one deployment. No customer request can open it: an engine may fail because of its input, so
 * failed answers only raise a suspicion, and a check with a request of our own decides. A failed connection depends on
 * no request and opens it without a check. After a pause it lets one call at a time through as a trial; an answered one
 * closes it. Times are those of performance.now().
 */

export type BreakerState = 'closed' | 'open' | 'half_open'

const FAULTS_IN_A_ROW = 5
/** The breaker also becomes suspicious when this many of the last WINDOW_CALLS calls have failed. */
const FAULTS_IN_WINDOW = 10
const WINDOW_CALLS = 20
const FIRST_PAUSE_MS = 1_000
const MAX_PAUSE_MS = 30_000
/** If all breakers are open, one call is tried anyway, at most this often. */
const LAST_RESORT_EVERY_MS = 250

export class Breaker {
  readonly #random: () => number
  #isOpen = false
  #openUntil = 0
  /**
   * No connection could be made, so any sign of life is news. An engine that answers with errors was alive all along.
   */
  #isUnreachable = false
  #hasTrial = false
  #trialEndedAt = -Infinity
  /** Openings since the last call that ended well. */
  #openings = 0
  #inARow = 0
  /** Consecutive failed connections among them. */
  #failedConnects = 0
  /** The last calls, one bit each, 1 for a fault, newest lowest. */
  #window = 0
  #isSuspect = false

  constructor(random: () => number) {
    this.#random = random
  }

  state(now: number): BreakerState {
    if (!this.#isOpen) return 'closed'
    return now < this.#openUntil ? 'open' : 'half_open'
  }

  allows(now: number): boolean {
    return !this.#isOpen || (now >= this.#openUntil && !this.#hasTrial)
  }

  /** Whether a call may be tried although the breaker is open, because no other deployment is available. */
  allowsLastResort(now: number): boolean {
    return this.#isOpen && !this.#hasTrial && now >= this.#trialEndedAt + LAST_RESORT_EVERY_MS
  }

  /** The time until a trial is let through. */
  waitMs(now: number): number {
    return this.#isOpen ? Math.max(0, this.#openUntil - now) : 0
  }

  /** Begins a call. true: the call is a trial, and must report its end as a trial. */
  enter(): boolean {
    if (!this.#isOpen) return false
    this.#hasTrial = true
    return true
  }

  /** Whether a check must decide. */
  needsCheck(now: number): boolean {
    return this.#isOpen ? now >= this.#openUntil : this.#isSuspect
  }

  /** A trial was answered. The head of the answer is enough: a long stream must not keep the others waiting. */
  answered(): void {
    this.#hasTrial = false
    this.#isOpen = false
    this.#forget()
  }

  /** Takes the result of a check. */
  checked(isHealthy: boolean, isUnreachable: boolean, now: number): void {
    this.#isSuspect = false
    if (!isHealthy) return this.#open(isUnreachable, now)
    this.#isOpen = false
    this.#openings = 0
    this.#forget()
  }

  /** A call ended well. A call that began before the breaker opened proves nothing. */
  succeeded(): void {
    if (this.#isOpen) return
    this.#openings = 0
    this.#inARow = 0
    this.#failedConnects = 0
    this.#window <<= 1
  }

  /** `isUnreachable`: no connection could be made. */
  faulted(isTrial: boolean, isUnreachable: boolean, now: number): void {
    if (isTrial) {
      this.released(now)
      if (isUnreachable) this.#open(true, now)
      return
    }
    if (this.#isOpen) return
    this.#inARow += 1
    if (isUnreachable) this.#failedConnects += 1
    this.#window = (this.#window << 1) | 1
    const faults = countBits(this.#window & ((1 << WINDOW_CALLS) - 1))
    if (this.#inARow >= FAULTS_IN_A_ROW || faults >= FAULTS_IN_WINDOW) this.#isSuspect = true
    if (this.#failedConnects >= FAULTS_IN_A_ROW) this.#open(true, now)
  }

  /** A trial ended without a verdict: its client went away, or the request itself may be at fault. */
  released(now: number): void {
    this.#hasTrial = false
    this.#trialEndedAt = now
  }

  /** A probe found the engine dead. */
  trip(now: number): void {
    if (!this.#isOpen) this.#open(true, now)
  }

  /** A probe found the engine alive. */
  revive(now: number): void {
    if (this.#isOpen && this.#isUnreachable) this.#openUntil = Math.min(this.#openUntil, now)
  }

  #forget(): void {
    this.#isSuspect = false
    this.#inARow = 0
    this.#failedConnects = 0
    this.#window = 0
  }

  #open(isUnreachable: boolean, now: number): void {
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** this.#openings, MAX_PAUSE_MS)
    this.#isOpen = true
    this.#isUnreachable = isUnreachable
    this.#openings += 1
    this.#openUntil = now + pauseMs * (0.75 + this.#random() / 2)
  }
}

function countBits(bits: number): number {
  let count = 0
  for (let remaining = bits; remaining !== 0; remaining &= remaining - 1) count += 1
  return count
}
