/**
 * One purse in memory: free money, money reserved for running requests, and money used but not settled. The sum equals
 * the hold in the ledger, unless a call to the database ended without an answer; then the purse must be recounted
 * (purses.ts).
 */
import { addMs, instantOf, type Instant } from '../../base/instant.ts'
import { maxUsd, minUsd, nanoUsdOf, sumUsd, usd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { Result } from '../../contract/result.ts'
import type { PurseOwner } from '../../domain/purse.ts'

/** A top-up requests at least this much more than needed, so that a quiet account needs only one for many requests. */
const MIN_TOP_UP = usd('0.05')
/** Spending is measured in windows of this length; a top-up covers two. */
const WINDOW_MS = 10_000
/** Server clocks differ, so a purse is not spent from this long before its end. */
const EXPIRY_MARGIN_MS = 60_000

/** A request that waits for a top-up. */
export interface Waiter {
  readonly worst: NanoUsd
  /** The borrower that waits. undefined: a request of this gateway. */
  readonly from: object | undefined
  readonly answer: (result: Result<OpenReservation>) => void
}

/** A reservation of the highest cost of a request. */
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
  /** undefined: never filled. */
  holdKey: string | undefined
  free: NanoUsd = zeroUsd
  reserved: NanoUsd = zeroUsd
  /** Open reservations. */
  open = 0
  /**
   * The part of the reserved money that goes back to the account once no request needs it, because a limit was set
   * since.
   */
  toReturn: NanoUsd = zeroUsd
  unsettled: NanoUsd = zeroUsd
  unsettledRequests = 0
  expiresAt: Instant = instantOf(0)
  usedAt: Instant
  /** A top-up is in progress. */
  isFilling = false
  /** The current call for more money. */
  topUp: Promise<unknown> | undefined
  fills = 0
  /** undefined: nothing is being given back. */
  giving: Promise<void> | undefined
  needsRecount = false
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

  /** The expected amount of the purse's hold in the ledger. */
  get total(): NanoUsd {
    return nanoUsdOf(this.free + this.reserved + this.unsettled)
  }

  isAlive(now: Instant): boolean {
    return now < this.expiresAt - EXPIRY_MARGIN_MS
  }

  isUsed(): boolean {
    return this.open > 0 || this.unsettledRequests > 0 || this.waiters.length > 0 || this.isFilling
  }

  /** undefined: not enough is free. A request that costs nothing is always covered. */
  reserve(worst: NanoUsd, now: Instant): OpenReservation | undefined {
    if (worst > 0n && (this.free < worst || !this.isAlive(now))) return undefined
    this.free = nanoUsdOf(this.free - worst)
    this.reserved = nanoUsdOf(this.reserved + worst)
    this.open += 1
    this.usedAt = now
    if (this.reserved > this.#peak) this.#peak = this.reserved
    return new OpenReservation(this, worst)
  }

  /**
   * Ends a reservation of which `cost` was used. Returns the part of the remaining money that goes back to the account.
   */
  end(reservation: OpenReservation, cost: NanoUsd, now: Instant): NanoUsd {
    reservation.purse = undefined
    this.open -= 1
    const returned = this.#unreserve(reservation.amount, nanoUsdOf(reservation.amount - cost))
    this.usedAt = now
    if (cost === 0n) return returned
    this.unsettled = nanoUsdOf(this.unsettled + cost)
    this.unsettledRequests += 1
    this.#spent = nanoUsdOf(this.#spent + cost)
    return returned
  }

  /** Called when a limit was set: returns the free money, which goes back; reserved money will follow. */
  recall(): NanoUsd {
    const { free } = this
    this.free = zeroUsd
    this.toReturn = this.reserved
    return free
  }

  /** Lends money to a worker: it stays in the hold and counts as one open reservation. */
  lend(reservation: OpenReservation, isFirst: boolean): void {
    reservation.purse = undefined
    if (!isFirst) this.open -= 1
  }

  /** Takes back a part of a loan that was not spent. Returns the part of it that goes back to the account. */
  takeBack(amount: NanoUsd): NanoUsd {
    return this.#unreserve(amount, amount)
  }

  /** `cost` of a loan was charged to its hold. */
  settleLoan(cost: NanoUsd): void {
    this.#unreserve(cost, zeroUsd)
    this.#spent = nanoUsdOf(this.#spent + cost)
  }

  /** Called when `lost` of the loan is no longer known to be in the hold: the recount finds its remaining money. */
  endLoan(lost: NanoUsd): void {
    this.open -= 1
    if (lost === 0n) return
    this.#unreserve(lost, zeroUsd)
    this.needsRecount = true
  }

  /** Deducts `cost`, which was charged to the purse's hold, for this number of requests. */
  settle(cost: NanoUsd, requests = 1): void {
    this.unsettled = nanoUsdOf(this.unsettled - cost)
    this.unsettledRequests -= requests
  }

  fill(granted: { holdKey: string; amount: NanoUsd; expiresAt: Instant }, now: Instant): void {
    // The money of an expired purse may have gone back already: it counts only once the recount has found it.
    if (this.holdKey !== undefined && !this.isAlive(now)) {
      this.needsRecount = true
      this.free = zeroUsd
    }
    this.fills += 1
    this.holdKey = granted.holdKey
    this.free = nanoUsdOf(this.free + granted.amount)
    this.expiresAt = granted.expiresAt
  }

  /** The amount missing for the first waiting request, and the amount to ask for. */
  topUpNeed(now: Instant): { minimum: NanoUsd; maximum: NanoUsd } {
    const free = this.isAlive(now) ? this.free : zeroUsd
    const minimum = nanoUsdOf((this.waiters[0]?.worst ?? 0n) - free)
    const forAll = nanoUsdOf(sumUsd(this.waiters.map((waiter) => waiter.worst)) - free)
    return { minimum, maximum: maxUsd(forAll, nanoUsdOf(minimum + this.#recentNeed(now))) }
  }

  /** Free money beyond recent use; zero if it is little. */
  surplus(now: Instant): NanoUsd {
    const keep = nanoUsdOf(this.#recentNeed(now) + maxUsd(this.#peak, this.#peakBefore))
    return this.free > 2n * keep ? nanoUsdOf(this.free - keep) : zeroUsd
  }

  /** Adjusts the free money to the amount in the ledger: a surplus becomes free, a shortfall reduces it. */
  recount(inLedger: NanoUsd): void {
    const { total } = this
    const shortfall = minUsd(this.free, maxUsd(zeroUsd, nanoUsdOf(total - inLedger)))
    this.free = nanoUsdOf(this.free + maxUsd(zeroUsd, nanoUsdOf(inLedger - total)) - shortfall)
    this.needsRecount = false
  }

  /**
   * Releases a reservation of `amount`, of which `unused` was not used. Its age is unknown, so it counts as the oldest
   * money.
   */
  #unreserve(amount: NanoUsd, unused: NanoUsd): NanoUsd {
    const older = minUsd(amount, this.toReturn)
    const returned = minUsd(older, unused)
    this.toReturn = nanoUsdOf(this.toReturn - older)
    this.reserved = nanoUsdOf(this.reserved - amount)
    this.free = nanoUsdOf(this.free + unused - returned)
    return returned
  }

  #recentNeed(now: Instant): NanoUsd {
    this.#rollWindow(now)
    return maxUsd(MIN_TOP_UP, nanoUsdOf(2n * maxUsd(this.#spent, this.#spentBefore)))
  }

  #rollWindow(now: Instant): void {
    const elapsedMs = now - this.#windowFrom
    if (elapsedMs < WINDOW_MS) return
    const isNext = elapsedMs < 2 * WINDOW_MS
    this.#spentBefore = isNext ? this.#spent : zeroUsd
    this.#peakBefore = isNext ? this.#peak : this.reserved
    this.#spent = zeroUsd
    this.#peak = this.reserved
    this.#windowFrom = isNext ? addMs(this.#windowFrom, WINDOW_MS) : now
  }
}
