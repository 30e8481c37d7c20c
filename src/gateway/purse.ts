/**
 * One purse in memory: what is free, what requests under way may still use, and what has been used but is not in the
 * books yet. The three together are what the books have in its hold, unless a call to them ended without an answer;
 * then the purse is in doubt, and is recounted (purses.ts).
 */
import { addMs, instantOf, type Instant } from '../base/instant.ts'
import { maxUsd, minUsd, nanoUsdOf, sumUsd, usd, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { Result } from '../contract/result.ts'
import type { PurseOwner } from '../domain/purse.ts'

/** A top-up brings at least this much more than is needed, so that a quiet account asks once for many requests. */
const SMALLEST_TOP_UP = usd('0.05')
/** Spending is counted in windows of this length; a top-up covers two of them. */
const WINDOW_MS = 10_000
/** Clocks of servers differ: this long before its end a purse is not spent from. */
const EXPIRY_MARGIN_MS = 60_000

/** Someone who waits for a top-up. */
export interface Waiter {
  readonly worst: NanoUsd
  readonly answer: (result: Result<OpenReservation>) => void
}

/** Money for the worst that a request can cost. */
export class OpenReservation {
  readonly amount: NanoUsd
  /** undefined once it has ended. */
  purse: Purse | undefined

  constructor(purse: Purse, amount: NanoUsd) {
    this.purse = purse
    this.amount = amount
  }
}

export class Purse {
  readonly owner: PurseOwner
  readonly waiters: Waiter[] = []
  /** undefined: it was never filled. */
  holdKey: string | undefined
  free: NanoUsd = zeroUsd
  reserved: NanoUsd = zeroUsd
  /** Reservations that have not ended. */
  open = 0
  unsettled: NanoUsd = zeroUsd
  unsettledRequests = 0
  expiresAt: Instant = instantOf(0)
  usedAt: Instant
  /** A top-up is under way. */
  isFilling = false
  fills = 0
  /** undefined: nothing is being given back. */
  giving: Promise<void> | undefined
  inDoubt = false
  #windowFrom: Instant
  #spent: NanoUsd = zeroUsd
  #spentBefore: NanoUsd = zeroUsd
  #peak: NanoUsd = zeroUsd
  #peakBefore: NanoUsd = zeroUsd

  constructor(owner: PurseOwner, now: Instant) {
    this.owner = owner
    this.usedAt = now
    this.#windowFrom = now
  }

  /** What the books should have in its hold. */
  get total(): NanoUsd {
    return nanoUsdOf(this.free + this.reserved + this.unsettled)
  }

  isAlive(now: Instant): boolean {
    return now < this.expiresAt - EXPIRY_MARGIN_MS
  }

  isUsed(): boolean {
    return this.open > 0 || this.unsettledRequests > 0 || this.waiters.length > 0 || this.isFilling
  }

  /** undefined: what is free does not cover it. What costs nothing is always covered. */
  reserve(worst: NanoUsd, now: Instant): OpenReservation | undefined {
    if (worst > 0n && (this.free < worst || !this.isAlive(now))) return undefined
    this.free = nanoUsdOf(this.free - worst)
    this.reserved = nanoUsdOf(this.reserved + worst)
    this.open += 1
    this.usedAt = now
    if (this.reserved > this.#peak) this.#peak = this.reserved
    return new OpenReservation(this, worst)
  }

  /** Ends a reservation of which `cost` was used. */
  end(reservation: OpenReservation, cost: NanoUsd, now: Instant): void {
    reservation.purse = undefined
    this.open -= 1
    this.reserved = nanoUsdOf(this.reserved - reservation.amount)
    this.free = nanoUsdOf(this.free + reservation.amount - cost)
    this.usedAt = now
    if (cost === 0n) return
    this.unsettled = nanoUsdOf(this.unsettled + cost)
    this.unsettledRequests += 1
    this.#spent = nanoUsdOf(this.#spent + cost)
  }

  /** The books have charged `cost` to its hold. */
  settle(cost: NanoUsd): void {
    this.unsettled = nanoUsdOf(this.unsettled - cost)
    this.unsettledRequests -= 1
  }

  fill(granted: { holdKey: string; amount: NanoUsd; expiresAt: Instant }, now: Instant): void {
    // What was in a purse that has run out may have gone back by now: it counts only when the recount has found it.
    if (this.holdKey !== undefined && !this.isAlive(now)) {
      this.inDoubt = true
      this.free = zeroUsd
    }
    this.fills += 1
    this.holdKey = granted.holdKey
    this.free = nanoUsdOf(this.free + granted.amount)
    this.expiresAt = granted.expiresAt
  }

  /** What is missing for the first who waits, and what to ask for. */
  wish(now: Instant): { needed: NanoUsd; wanted: NanoUsd } {
    const free = this.isAlive(now) ? this.free : zeroUsd
    const needed = nanoUsdOf((this.waiters[0]?.worst ?? 0n) - free)
    const forAll = nanoUsdOf(sumUsd(this.waiters.map((waiter) => waiter.worst)) - free)
    return { needed, wanted: maxUsd(forAll, nanoUsdOf(needed + this.#recentNeed(now))) }
  }

  /** What is free beyond what its recent use asks for; zero where it is not much. */
  surplus(now: Instant): NanoUsd {
    const keep = nanoUsdOf(this.#recentNeed(now) + maxUsd(this.#peak, this.#peakBefore))
    return this.free > 2n * keep ? nanoUsdOf(this.free - keep) : zeroUsd
  }

  /** The books have `held`: what they have more is free, what they have less is not. */
  recount(held: NanoUsd): void {
    const { total } = this
    const less = minUsd(this.free, maxUsd(zeroUsd, nanoUsdOf(total - held)))
    this.free = nanoUsdOf(this.free + maxUsd(zeroUsd, nanoUsdOf(held - total)) - less)
    this.inDoubt = false
  }

  #recentNeed(now: Instant): NanoUsd {
    this.#rollWindow(now)
    return maxUsd(SMALLEST_TOP_UP, nanoUsdOf(2n * maxUsd(this.#spent, this.#spentBefore)))
  }

  #rollWindow(now: Instant): void {
    const past = now - this.#windowFrom
    if (past < WINDOW_MS) return
    const isNext = past < 2 * WINDOW_MS
    this.#spentBefore = isNext ? this.#spent : zeroUsd
    this.#peakBefore = isNext ? this.#peak : this.reserved
    this.#spent = zeroUsd
    this.#peak = this.reserved
    this.#windowFrom = isNext ? addMs(this.#windowFrom, WINDOW_MS) : now
  }
}
