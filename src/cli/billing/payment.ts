/** `berth billing add`: money by card, and what became of it. */
import { money } from '../../view/money.ts'
import { paymentDetail, paymentLabel } from '../../view/payment.ts'
import { utcTime } from '../../view/time.ts'
import type { Reply } from '../../client/client.ts'
import { act, list, show } from '../kit/row.ts'
import type { Row } from '../kit/row-type.ts'

type Payment = Reply<'getTopUp'>

const PAYMENT = { '<id>': 'id of the payment, as berth billing add shows it' }

export const paymentRows: readonly Row[] = [
  act('billing add', 'createTopUp', 'add money by card', {
    args: { '<usd>': { help: 'credit to buy, in USD; tax comes on top', field: 'amountUsd' } },
    flags: { saveCard: '--save-card  keep the card for automatic top-ups' },
    examples: ['berth billing add 100'],
    done: (payment) => [
      payment.url === null
        ? 'The page to pay on is not ready yet.'
        : `Pay ${money(payment.amountUsd)} here: ${payment.url}`,
      `Then check: berth billing payment ${payment.id}`,
    ],
  }),
  list('billing payments ls', 'listTopUps', 'list payments by card, newest first', {
    columns: [
      'id',
      { STATE: (payment) => paymentLabel(payment)[0], CREDIT: ({ amountUsd }) => money(amountUsd) },
      'createdAt',
    ],
    wide: [{ DETAIL: (payment) => paymentDetail(payment) ?? '' }],
    empty: 'To add money: berth billing add 100',
  }),
  show('billing payment', 'getTopUp', 'show a payment by card', {
    args: PAYMENT,
    examples: ['berth billing payment pay_ID'],
    facts: [
      { Payment: ({ id }) => id, State: stateOf, Credit: ({ amountUsd }) => money(amountUsd) },
      { Tax: ({ taxUsd }) => (taxUsd === null ? undefined : money(taxUsd)) },
      'createdAt',
      'paidAt',
      { 'Pay at': ({ url }) => url ?? undefined },
    ],
  }),
]

function stateOf({ state, failure, expiresAt }: Payment): string {
  if (state === 'open') return `open until ${utcTime(expiresAt)}`
  return failure === null ? state : `${state}: ${failure}`
}
