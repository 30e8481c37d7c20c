/** `berth billing credits` and `redeem`: trials, vouchers, gifts, and cards that are saved without a payment. */
import { money } from '../../view/money.ts'
import { creditLabels } from '../../view/credit.ts'
import { act, list } from '../kit/row.ts'
import type { Row } from '../kit/row-type.ts'

export const creditRows: readonly Row[] = [
  list('billing credits', 'listCredits', 'list credits that you were given, newest first', {
    noun: 'credit',
    columns: [
      'id',
      {
        KIND: ({ kind }) => creditLabels[kind],
        CREDIT: ({ amountUsd }) => money(amountUsd),
        UNSPENT: ({ unspentUsd }) => money(unspentUsd),
      },
      'grantedAt:SINCE',
      'expiresAt:EXPIRES',
    ],
    empty: 'To redeem a voucher: berth billing redeem CODE',
    notes: `Credits are spent before paid money, the first to expire first. Refunds to a card
leave them out.`,
    examples: ['berth billing credits'],
  }),
  act('billing redeem', 'redeemVoucher', 'redeem a voucher', {
    args: { '<code>': { help: 'code of the voucher', field: 'code' } },
    examples: ['berth billing redeem 7K3M-9QXA-V2TD-8HNC'],
    done: ({ amountUsd, expiresAt }) =>
      `Added ${money(amountUsd)}${expiresAt === null ? '.' : `. It expires on ${expiresAt.slice(0, 10)}.`}`,
  }),
  act('billing cards add', 'createCardSetup', 'save a card without a payment', {
    examples: ['berth billing cards add'],
    done: ({ url }) =>
      url === null ? 'The page is not ready yet. Try again in a minute.' : `Enter the card here: ${url}`,
  }),
]
