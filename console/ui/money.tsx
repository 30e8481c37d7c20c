/** An amount as people read it, with the exact one as a tooltip. */
import { exactMoney, money, type Usd } from '../../src/view/money.ts'

export function Money({ usd }: { usd: Usd }) {
  return <span title={exactMoney(usd)}>{money(usd)}</span>
}
