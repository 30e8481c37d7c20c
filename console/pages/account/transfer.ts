/** Describes a transfer before it is made: from where, to where, and the balance after it. */
import { minUsd, nanoUsdOf, parseUsd, zeroUsd } from '../../../src/base/money.ts'
import { money } from '../../../src/view/money.ts'
import type { Account } from './record.tsx'

/** The values of the form. */
export interface Transfer {
  readonly move: 'credit' | 'adjust' | 'refund' | 'payout'
  readonly amountUsd: string
  readonly kind: 'purchase' | 'credit'
  readonly direction: 'up' | 'down'
  readonly rentalId: string
}

/** Describes a transfer. The values must be valid. */
export function transferSentence(account: Account, transfer: Transfer): string {
  const amount = money(transfer.amountUsd)
  switch (transfer.move) {
    case 'credit': {
      const from = transfer.kind === 'purchase' ? 'funding' : 'adjustments'
      return `Moves ${amount} from ${from} to the balance of ${account.name}. ${balanceAfter(account, transfer)}`
    }
    case 'adjust':
      return transfer.direction === 'up'
        ? `Moves ${amount} from adjustments to the balance of ${account.name}. ${balanceAfter(account, transfer)}`
        : `Moves ${amount} from the balance of ${account.name} to adjustments. ${balanceAfter(account, transfer)}`
    case 'refund':
      return `Moves ${amount} from revenue to the balance of ${account.name}, for rental ${transfer.rentalId}. ${balanceAfter(account, transfer)} A supplier keeps its share.`
    case 'payout':
      return `Moves ${amount} from the earnings of ${account.name} to payouts. ${balanceAfter(account, transfer)} Make the bank transfer yourself.`
  }
}

export function doneSentence(account: Account, { move, amountUsd: amount, direction }: Transfer): string {
  switch (move) {
    case 'credit':
      return `Added ${money(amount)} to ${account.name}.`
    case 'adjust':
      return `${direction === 'up' ? 'Increased' : 'Reduced'} the balance of ${account.name} by ${money(amount)}.`
    case 'refund':
      return `Refunded ${money(amount)} to ${account.name}.`
    case 'payout':
      return `Recorded a payout of ${money(amount)} to ${account.name}.`
  }
}

/** An estimate: the server checks the current balance. */
function balanceAfter(account: Account, { move, amountUsd: amount, direction }: Transfer): string {
  const isPayout = move === 'payout'
  const before = parseUsd(isPayout ? account.earningsUsd : account.availableUsd) ?? zeroUsd
  const moved = parseUsd(amount) ?? zeroUsd
  const goesDown = isPayout || (move === 'adjust' && direction === 'down')
  // Incoming money repays used credit first.
  const repaid = goesDown ? zeroUsd : minUsd(parseUsd(account.creditUsedUsd) ?? zeroUsd, moved)
  const after = nanoUsdOf(goesDown ? before - moved : before + moved - repaid)
  const what = isPayout ? 'Unpaid earnings' : 'The available balance'
  if (after < 0n) return `${what} ${isPayout ? 'are' : 'is'} only ${money(before)}.`
  const credit = repaid > 0n ? ` ${money(repaid)} repays the credit line.` : ''
  return `${what} ${isPayout ? 'go' : 'goes'} from ${money(before)} to ${money(after)}.${credit}`
}
