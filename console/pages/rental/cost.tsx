/** The cost of a machine, extrapolated between two reads at the current price. */
import { formatUsd, type NanoUsd } from '../../../src/base/money.ts'
import { exactMoney } from '../../../src/view/money.ts'
import { costAt, type OwnMachine } from '../../../src/view/own-machine.ts'
import { useNow } from '../../ui/now.ts'

/** A running cost changes in its fourth decimal within a second. */
const SHOWN_DECIMALS = 4

interface CostSoFarProps {
  readonly machine: OwnMachine
  /** The time of the read, by the browser's clock. */
  readonly readMs: number
}

export function CostSoFar({ machine, readMs }: CostSoFarProps) {
  const cost = costAt(machine, readMs, useNow())
  return (
    <span className="tabular-nums" title={exactMoney(cost)}>
      {shortMoney(cost)}
    </span>
  )
}

/** A fixed number of decimals, rounded down, so that a running cost keeps its width: `$0.1031`. */
function shortMoney(amount: NanoUsd): string {
  const [whole = '0', decimals = ''] = formatUsd(amount).split('.')
  return `$${whole.replace(/\B(?=(\d{3})+$)/g, ',')}.${decimals.slice(0, SHOWN_DECIMALS)}`
}
