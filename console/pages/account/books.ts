/** What a move of money will be in the books, in a sentence: from where to where, and what is left. */
import { minUsd, nanoUsdOf, parseUsd, zeroUsd } from '../../../src/base/money.ts'
import { money } from '../../../src/view/money.ts'
import type { Account } from './record.tsx'

/** As it is typed. */
export interface MoneyWish {
  readonly move: 'credit' | 'adjust' | 'refund' | 'payout'
  readonly amountUsd: string
  readonly kind: 'purchase' | 'credit'
  readonly direction: 'up' | 'down'
  readonly rentalId: string
  readonly reason: string
}

/** Only of a wish without faults. */
export function booksSentence(account: Account, wish: MoneyWish): string {
  const amount = money(wish.amountUsd)
  switch (wish.move) {
    case 'credit': {
      const from =
        wish.kind === 'purchase' ? 'funding, the money that came in,' : 'adjustments, as a gift of the house,'
      return `${amount} from ${from} to the balance of ${account.name}. ${becomes(account, wish)}`
    }
    case 'adjust':
      return wish.direction === 'up'
        ? `${amount} from adjustments to the balance of ${account.name}. ${becomes(account, wish)}`
        : `${amount} from the balance of ${account.name} to adjustments. ${becomes(account, wish)}`
    case 'refund':
      return `${amount} from revenue back to the balance of ${account.name}, for rental ${wish.rentalId}. ${becomes(account, wish)} A supplier keeps its share.`
    case 'payout':
      return `${amount} from the earnings of ${account.name} to payouts. ${becomes(account, wish)} The money itself moves at your bank.`
  }
}

export function doneSentence(account: Account, { move, amountUsd: amount, direction }: MoneyWish): string {
  switch (move) {
    case 'credit':
      return `${account.name} has got ${money(amount)}.`
    case 'adjust':
      return `The balance of ${account.name} went ${direction} by ${money(amount)}.`
    case 'refund':
      return `${money(amount)} was refunded to ${account.name}.`
    case 'payout':
      return `A payout of ${money(amount)} to ${account.name} is in the books.`
  }
}

/** What is left after it; that it cannot go below zero is for the server to say, whose balance is the newest. */
function becomes(account: Account, { move, amountUsd: amount, direction }: MoneyWish): string {
  const isPayout = move === 'payout'
  const before = parseUsd(isPayout ? account.earningsUsd : account.availableUsd) ?? zeroUsd
  const moved = parseUsd(amount) ?? zeroUsd
  const goesDown = isPayout || (move === 'adjust' && direction === 'down')
  // What comes in repays drawn credit first.
  const repaid = goesDown ? zeroUsd : minUsd(parseUsd(account.creditUsedUsd) ?? zeroUsd, moved)
  const after = nanoUsdOf(goesDown ? before - moved : before + moved - repaid)
  const what = isPayout ? 'What is unpaid' : 'The available balance'
  if (after < 0n)
    return `${what} is ${money(before)}, which does not cover it; the ledger refuses what goes below zero.`
  const credit = repaid > 0n ? ` ${money(repaid)} repays the credit line.` : ''
  return `${what} goes from ${money(before)} to ${money(after)}.${credit}`
}
