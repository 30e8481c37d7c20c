/** The cost of a machine, extrapolated between two reads by its price. */
import { costOfSpan, formatUsd, nanoUsdOf, parseUsd, zeroUsd, type NanoUsd } from '../../../src/base/money.ts'
import { rentalStateTable, type RentalState } from '../../../src/contract/rental-state.ts'
import { exactMoney } from '../../../src/view/money.ts'
import { useNow } from '../../ui/now.ts'

/** A running cost changes in its fourth decimal within a second. */
const SHOWN_DECIMALS = 4

interface CostSoFarProps {
  readonly costUsd: string
  /** When it was read, by the browser's clock. */
  readonly readAtMs: number
  readonly pricePerHour: NanoUsd
  readonly status: RentalState
}

export function CostSoFar({ costUsd, readAtMs, pricePerHour, status }: CostSoFarProps) {
  const now = useNow()
  const read = parseUsd(costUsd) ?? zeroUsd
  const sinceMs = rentalStateTable[status].billing === 'full' ? Math.max(0, Math.floor(now - readAtMs)) : 0
  const cost = nanoUsdOf(read + costOfSpan(pricePerHour, sinceMs))
  return (
    <span className="tabular-nums" title={exactMoney(cost)}>
      {shortMoney(cost)}
    </span>
  )
}

/** With a fixed number of decimals, so that a running number keeps its width: `$0.1031`. Rounded down. */
export function shortMoney(amount: NanoUsd): string {
  const [whole = '0', decimals = ''] = formatUsd(amount).split('.')
  return `$${whole.replace(/\B(?=(\d{3})+$)/g, ',')}.${decimals.slice(0, SHOWN_DECIMALS)}`
}
