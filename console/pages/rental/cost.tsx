/** What a machine has cost, moving on between two reads: the cost as it was read, and its price for the time since. */
import { costOfSpan, formatUsd, nanoUsdOf, parseUsd, zeroUsd, type NanoUsd } from '../../../src/base/money.ts'
import type { RentalStatus } from '../../../src/contract/rental.ts'
import { useNow } from '../../ui/now.ts'

/** Of a cost that moves on while one looks; lists have room for fewer. */
const SHOWN_DECIMALS = 6
export const LISTED_DECIMALS = 4

interface CostSoFarProps {
  readonly costUsd: string
  /** When that was read, by this machine's clock. */
  readonly readAtMs: number
  readonly pricePerHour: NanoUsd
  readonly status: RentalStatus
}

export function CostSoFar({ costUsd, readAtMs, pricePerHour, status }: CostSoFarProps) {
  const now = useNow()
  const read = parseUsd(costUsd) ?? zeroUsd
  // Only what runs is charged.
  const sinceMs = status === 'Running' ? Math.max(0, Math.floor(now - readAtMs)) : 0
  const cost = nanoUsdOf(read + costOfSpan(pricePerHour, sinceMs))
  return <span className="tabular-nums">{shortMoney(cost)}</span>
}

/** Of a fixed length, so that a number that moves does not dance: `$0.103168`. Nothing is rounded up. */
export function shortMoney(amount: NanoUsd, shown = SHOWN_DECIMALS): string {
  const [whole = '0', decimals = ''] = formatUsd(amount).split('.')
  return `$${whole.replace(/\B(?=(\d{3})+$)/g, ',')}.${decimals.slice(0, shown)}`
}
