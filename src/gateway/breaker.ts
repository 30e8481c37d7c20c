/**
 * Keeps requests away from a deployment that fails. Whatever a customer sends, it cannot open the breaker: an engine may
 * fail because of what it was sent, so failed answers only raise a suspicion, and a check with a request of our own
 * decides. That no connection can be made depends on no request, and opens it without a check. When its pause is over it
 * lets one call at a time through as a trial; one that is answered closes it. Times are those of performance.now().
 */

export type BreakerState = 'closed' | 'open' | 'half_open'

const FAULTS_IN_A_ROW = 5
/** Of the last so many calls, at most so many may fail, whatever lies between them. */
const WINDOW_CALLS = 20
const FAULTS_IN_WINDOW = 10
const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 30_000
/** Where everything is open, one is tried all the same, so often at most. */
const LAST_RESORT_EVERY_MS = 250

export class Breaker {
  readonly #random: () => number
  #isOpen = false
  #openUntil = 0
  /** It could not be reached, so a sign of life is news. What answered with errors is alive all the time. */
  #isUnreachable = false
  #hasTrial = false
  #trialEndedAt = -Infinity
  /** How often it was opened without a call having ended well in between. */
  #openings = 0
  #inARow = 0
  /** Of those in a row, how many found no connection. */
  #awayInARow = 0
  /** The last calls, a bit each, 1 for a fault; the newest is the lowest. */
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

  /** For when no other deployment is left. */
  allowsLastResort(now: number): boolean {
    return this.#isOpen && !this.#hasTrial && now >= this.#trialEndedAt + LAST_RESORT_EVERY_MS
  }

  /** How long until it lets a trial through. */
  waitMs(now: number): number {
    return this.#isOpen ? Math.max(0, this.#openUntil - now) : 0
  }

  /** A call begins. true: it is a trial, and must say so in what it tells later. */
  enter(): boolean {
    if (!this.#isOpen) return false
    this.#hasTrial = true
    return true
  }

  /** Whether it is for a check to decide what becomes of it. */
  needsCheck(now: number): boolean {
    return this.#isOpen ? now >= this.#openUntil : this.#isSuspect
  }

  /** A trial got an answer, which is enough to know; a long stream shall not keep the others waiting. */
  answered(): void {
    this.#hasTrial = false
    this.#isOpen = false
    this.#forget()
  }

  /** What a check came to. */
  checked(isWell: boolean, isUnreachable: boolean, now: number): void {
    this.#isSuspect = false
    if (!isWell) return this.#open(isUnreachable, now)
    this.#isOpen = false
    this.#openings = 0
    this.#forget()
  }

  /** A call ended well. Late ones, from before it opened, prove nothing. */
  succeeded(): void {
    if (this.#isOpen) return
    this.#openings = 0
    this.#inARow = 0
    this.#awayInARow = 0
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
    if (isUnreachable) this.#awayInARow += 1
    this.#window = (this.#window << 1) | 1
    const faults = countBits(this.#window & ((1 << WINDOW_CALLS) - 1))
    if (this.#inARow >= FAULTS_IN_A_ROW || faults >= FAULTS_IN_WINDOW) this.#isSuspect = true
    if (this.#awayInARow >= FAULTS_IN_A_ROW) this.#open(true, now)
  }

  /** A trial ended without a verdict: its client went away, or it may have failed for what it asked. */
  released(now: number): void {
    this.#hasTrial = false
    this.#trialEndedAt = now
  }

  /** A probe found it dead. */
  trip(now: number): void {
    if (!this.#isOpen) this.#open(true, now)
  }

  /** A probe found it alive. */
  revive(now: number): void {
    if (this.#isOpen && this.#isUnreachable) this.#openUntil = Math.min(this.#openUntil, now)
  }

  #forget(): void {
    this.#isSuspect = false
    this.#inARow = 0
    this.#awayInARow = 0
    this.#window = 0
  }

  #open(isUnreachable: boolean, now: number): void {
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** this.#openings, LONGEST_PAUSE_MS)
    this.#isOpen = true
    this.#isUnreachable = isUnreachable
    this.#openings += 1
    this.#openUntil = now + pauseMs * (0.75 + this.#random() / 2)
  }
}

function countBits(bits: number): number {
  let count = 0
  for (let rest = bits; rest !== 0; rest &= rest - 1) count += 1
  return count
}
