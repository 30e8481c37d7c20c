/**
 * The balance of an account. `available` and `held` in the ledger are as of the last charges; here the cost accrued
 * since then is deducted where the meter will charge it, so that Balance = Available + On hold at every moment. The API,
 * the console and the runway warnings all use these numbers.
 */
import { earlier, type Instant } from '../base/instant.ts'
import { maxUsd, minUsd, nanoUsdOf, sumUsd, zeroUsd, type NanoUsd } from '../base/money.ts'
import { accrued, type OpenSegment } from './metering.ts'
import { emptyAt, type Runway } from './runway.ts'

export interface RunningSegment extends OpenSegment {
  /** The amount in the hold of this segment. */
  readonly held: NanoUsd
  /** Set while the machine is unreachable: nothing is charged after that instant. */
  readonly chargedUntil: Instant | null
  /** Whether the segment is paid from the hold of a reserved term. */
  readonly committed: boolean
  /**
   * Whether the rental is a replica of a model for everyone, for which the house tops up the account
   * (app/money/house.ts).
   */
  readonly ofHouse: boolean
  readonly isVolume: boolean
}

/** Amounts and running segments of an account, read at one moment. */
export interface Standing {
  readonly available: NanoUsd
  readonly held: NanoUsd
  readonly earnings: NanoUsd
  /** The part of `held` for reserved terms. */
  readonly committed: NanoUsd
  readonly creditLine: NanoUsd
  readonly creditUsed: NanoUsd
  /** The debt after disputes of money that the account had spent. */
  readonly debt: NanoUsd
  /** Money that the house has put into the account for its replicas, as of their last charges. */
  readonly houseMoney: NanoUsd
  readonly segments: readonly RunningSegment[]
}

export interface Balance {
  /** `available + held`, exactly. */
  readonly balance: NanoUsd
  /**
   * The cost of running segments since their last charges. It is already deducted from `balance`: the ledger has
   * `balance + unbilled`.
   */
  readonly unbilled: NanoUsd
  readonly available: NanoUsd
  readonly held: NanoUsd
  readonly earnings: NanoUsd
  readonly creditLine: NanoUsd
  readonly creditUsed: NanoUsd
  readonly debt: NanoUsd
  /** Current charges; unreachable machines are not charged. */
  readonly hourlySpend: NanoUsd
  /** The part of `hourlySpend` for volumes. */
  readonly volumeSpend: NanoUsd
  /** Without reserved terms, which are already paid for, and replicas of the house, which never run out of money. */
  readonly runway: Runway
  /** When on-demand charges use up the balance. null: nothing is charged, or after the year 9999. */
  readonly emptyAt: Instant | null
}

export function balanceOf(standing: Standing, now: Instant): Balance {
  const runUp = standing.segments.map((segment) => {
    const cost = accrued(segment, earlier(now, segment.chargedUntil ?? now))
    const fromHold = minUsd(cost, segment.held)
    return { segment, fromHold, fromAvailable: nanoUsdOf(cost - fromHold) }
  })
  const held = nanoUsdOf(standing.held - sumUsd(runUp.map(({ fromHold }) => fromHold)))
  // A late meter can show more than the balance, but never charges more.
  const owed = sumUsd(runUp.map(({ fromAvailable }) => fromAvailable))
  const available = maxUsd(nanoUsdOf(standing.available - owed), zeroUsd)
  const balance = nanoUsdOf(available + held)

  const charged = standing.segments.filter(({ chargedUntil }) => chargedUntil === null)
  const priceOf = (segments: readonly RunningSegment[]): NanoUsd =>
    sumUsd(segments.map(({ pricePerHour }) => pricePerHour))
  const ofTerms = sumUsd(runUp.map(({ segment, fromHold }) => (segment.committed ? fromHold : zeroUsd)))
  const ofHouse = runUp.filter(({ segment }) => segment.ofHouse)
  const houseCost = sumUsd(ofHouse.map(({ fromHold, fromAvailable }) => nanoUsdOf(fromHold + fromAvailable)))
  const houseMoney = maxUsd(nanoUsdOf(standing.houseMoney - houseCost), zeroUsd)
  const runway = {
    funds: maxUsd(nanoUsdOf(balance - (standing.committed - ofTerms) - houseMoney), zeroUsd),
    hourlySpend: priceOf(charged.filter(({ committed, ofHouse }) => !committed && !ofHouse)),
  }
  return {
    balance,
    unbilled: nanoUsdOf(standing.available + standing.held - balance),
    available,
    held,
    earnings: standing.earnings,
    creditLine: standing.creditLine,
    creditUsed: standing.creditUsed,
    debt: standing.debt,
    hourlySpend: priceOf(charged),
    volumeSpend: priceOf(charged.filter(({ isVolume }) => isVolume)),
    runway,
    emptyAt: emptyAt(runway.funds, runway.hourlySpend, now),
  }
}
