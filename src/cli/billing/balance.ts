/** A balance as facts, and in one line. */
import { systemClock, type Instant } from '../../base/instant.ts'
import { parseUsd } from '../../base/money.ts'
import type { Reply } from '../../client/client.ts'
import { debtOf, money } from '../../view/money.ts'
import { relativeTime, utcTime } from '../../view/time.ts'
import type { Columns } from '../kit/record.ts'
import { bold, toned, type Cell } from '../kit/screen.ts'

type Balance = Reply<'getCustomerBalance'>

export const balanceFacts: Columns<Balance> = [
  {
    Balance: ({ balanceUsd }) => bold(money(balanceUsd)),
    'Not charged yet': ({ unbilledUsd }) =>
      isZero(unbilledUsd) ? undefined : `${money(unbilledUsd)}, running cost that is already deducted here`,
    Available: ({ availableUsd }) => `${money(availableUsd)}, for new rentals`,
    'On hold': ({ heldUsd }) => `${money(heldUsd)}, for running machines and reserved terms`,
    'Credit line': creditLine,
    Debt: debt,
    Spending: ({ hourlySpendUsd }) => (isZero(hourlySpendUsd) ? 'nothing is running' : `${money(hourlySpendUsd)}/hr`),
    Empty: ({ emptyAt }) =>
      emptyAt === null ? undefined : `${utcTime(emptyAt)} (${relativeTime(emptyAt, systemClock.now())})`,
    Earnings: ({ earningsUsd }) => (isZero(earningsUsd) ? undefined : `${money(earningsUsd)}, not yet paid out`),
  },
]

/** undefined: the account has none. */
export function creditLine(account: {
  readonly creditLineUsd: string
  readonly creditUsedUsd: string
}): string | undefined {
  if (isZero(account.creditLineUsd) && isZero(account.creditUsedUsd)) return undefined
  return `${money(account.creditLineUsd)} for reserved terms, ${money(account.creditUsedUsd)} used`
}

/** undefined: the account owes nothing. */
export function debt(account: { readonly debtUsd: string }): Cell | undefined {
  const debtUsd = debtOf(account)
  return debtUsd && toned('bad', `${money(debtUsd)}, after a disputed payment; payments repay it first`)
}

export function balanceLine(balance: Balance, now: Instant): string {
  const { balanceUsd, hourlySpendUsd, emptyAt } = balance
  const debtUsd = debtOf(balance)
  if (debtUsd !== undefined) return `${money(balanceUsd)}; ${money(debtUsd)} owed after a disputed payment`
  if (isZero(hourlySpendUsd)) return `${money(balanceUsd)}; nothing is running`
  const end = emptyAt === null ? '' : `, empty ${relativeTime(emptyAt, now)}`
  return `${money(balanceUsd)}; ${money(hourlySpendUsd)}/hr${end}`
}

function isZero(usd: string): boolean {
  return parseUsd(usd) === 0n
}
