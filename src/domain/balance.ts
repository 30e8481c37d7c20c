/**
 * What an account has. `available` and `held` of the ledger are as of the last charges; here the cost that has run up
 * since is taken off where the meter will take it, so that Balance = Available + On hold at every moment. Every
 * screen, the API and the runway warnings read these numbers from here.
 */
import { earlier, type Instant } from '../base/instant.ts'
import { maxUsd, minUsd, nanoUsdOf, sumUsd, zeroUsd, type NanoUsd } from '../base/money.ts'
import { accrued, type OpenSegment } from './metering.ts'
import { emptyAt, type Runway } from './runway.ts'

export interface RunningSegment extends OpenSegment {
  /** In its hold. */
  readonly held: NanoUsd
  /** Set while its machine is unreachable: nothing is charged past that instant. */
  readonly chargedUntil: Instant | null
  /** Paid from the hold of a reserved term. */
  readonly committed: boolean
}

/** What the ledger and the meters say of an account, read at one moment. */
export interface Standing {
  readonly available: NanoUsd
  readonly held: NanoUsd
  readonly earnings: NanoUsd
  /** Of `held`, what belongs to reserved terms. */
  readonly committed: NanoUsd
  readonly creditLine: NanoUsd
  readonly creditUsed: NanoUsd
  readonly segments: readonly RunningSegment[]
}

export interface Balance {
  /** `available + held`, exactly. */
  readonly balance: NanoUsd
  readonly available: NanoUsd
  readonly held: NanoUsd
  readonly earnings: NanoUsd
  readonly creditLine: NanoUsd
  readonly creditUsed: NanoUsd
  /** What is charged now. Unreachable machines are not. */
  readonly hourlySpend: NanoUsd
  /** Reserved terms are paid for already, and no part of it. */
  readonly runway: Runway
  /** When on-demand charges have used up the balance. null: nothing is charged, or it lasts longer than anyone plans. */
  readonly emptyAt: Instant | null
}

export function balanceOf(standing: Standing, now: Instant): Balance {
  const runUp = standing.segments.map((segment) => {
    const cost = accrued(segment, earlier(now, segment.chargedUntil ?? now))
    const fromHold = minUsd(cost, segment.held)
    return { segment, fromHold, fromAvailable: nanoUsdOf(cost - fromHold) }
  })
  const held = nanoUsdOf(standing.held - sumUsd(runUp.map(({ fromHold }) => fromHold)))
  // A late meter may show more than there is; it will charge no more than there is.
  const owed = sumUsd(runUp.map(({ fromAvailable }) => fromAvailable))
  const available = maxUsd(nanoUsdOf(standing.available - owed), zeroUsd)
  const balance = nanoUsdOf(available + held)

  const charged = standing.segments.filter(({ chargedUntil }) => chargedUntil === null)
  const priceOf = (segments: readonly RunningSegment[]): NanoUsd =>
    sumUsd(segments.map(({ pricePerHour }) => pricePerHour))
  const ofTerms = sumUsd(runUp.map(({ segment, fromHold }) => (segment.committed ? fromHold : zeroUsd)))
  const runway = {
    funds: nanoUsdOf(balance - (standing.committed - ofTerms)),
    hourlySpend: priceOf(charged.filter(({ committed }) => !committed)),
  }
  return {
    balance,
    available,
    held,
    earnings: standing.earnings,
    creditLine: standing.creditLine,
    creditUsed: standing.creditUsed,
    hourlySpend: priceOf(charged),
    runway,
    emptyAt: emptyAt(runway.funds, runway.hourlySpend, now),
  }
}
