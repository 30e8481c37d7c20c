/**
 * The vendor's bill of one simulated resource: periods at a price, so that a test can compare what the vendor would charge
 * with what Berth recorded.
 */
import type { Instant } from '../../../src/base/instant.ts'

const HOUR_MS = 3_600_000

export class SimBill {
  readonly #periods: Array<{ from: Instant; nanoPerHour: bigint }> = []
  #end: Instant | undefined
  #prepaid = 0n

  start(at: Instant, nanoPerHour: bigint): void {
    this.#periods.push({ from: at, nanoPerHour })
  }

  /** From now on it costs this. No effect before it starts. */
  setPrice(at: Instant, nanoPerHour: bigint): void {
    if (this.#periods.length > 0 && this.#end === undefined) this.start(at, nanoPerHour)
  }

  /** Paid in advance, however soon it ends. */
  prepay(at: Instant, nano: bigint): void {
    this.#prepaid += nano
    this.start(at, 0n)
  }

  stop(at: Instant): void {
    this.#end ??= at
  }

  get isStarted(): boolean {
    return this.#periods.length > 0
  }

  /** Up to now; exact to the millisecond, rounded down. */
  nanoUsd(now: Instant): bigint {
    return this.#periods.reduce((sum, { from, nanoPerHour }, n) => {
      const until = Math.min(this.#periods[n + 1]?.from ?? Infinity, this.#end ?? now)
      return sum + (nanoPerHour * BigInt(Math.max(0, until - from))) / BigInt(HOUR_MS)
    }, this.#prepaid)
  }
}
