/** `berth operator payments`: payments by card. */
import { money } from '../../view/money.ts'
import { count } from '../../view/number.ts'
import { utcTime } from '../../view/time.ts'
import type { Reply } from '../../client/client.ts'
import { tableOf, type Columns } from '../kit/record.ts'
import { act, custom } from '../kit/row.ts'
import { toned, type Content } from '../kit/screen.ts'
import type { Row } from '../kit/row-type.ts'

type Listed = Reply<'listPayments'>
type Comparison = Reply<'comparePayments'>

export const rows: readonly Row[] = [
  custom('operator payments ls', 'list payments by card, after what to look at', {
    operation: 'listPayments',
    examples: ['berth operator payments ls'],
    run: async ({ client, screen }) => {
      const listed = await client.call('listPayments')
      const { comparison } = listed
      const lines = () => [
        ...listed.alerts.map(alertLine),
        ...(comparison === null ? [] : [comparisonLine(comparison)]),
        ...paymentList(listed),
      ]
      screen.show(listed, lines)
    },
  }),
  act('operator payments reconcile', 'comparePayments', 'compare with the ledger of Stripe', {
    examples: ['berth operator payments reconcile'],
    done: comparisonLines,
  }),
  act('operator payments refund', 'refundPayment', 'refund a payment to its card', {
    args: {
      '<id>': 'id of the payment',
      '<usd>': { help: 'credit to take back, in USD; its tax goes back with it', field: 'amountUsd' },
    },
    flags: { reason: '--reason <text>  reason, recorded in the ledger and the audit log' },
    examples: ['berth operator payments refund pay_ID 20 --reason "Paid twice"'],
    done: ({ amountUsd, taxUsd, id }) => `Refunding ${money(amountUsd)} and ${money(taxUsd)} of tax (${id}).`,
  }),
]

const columns: Columns<Listed['payments'][number]> = [
  'id',
  'accountId:ACCOUNT',
  {
    STATE: ({ state, failure }) => (failure === null ? state : `${state}: ${failure}`),
    CREDIT: ({ amountUsd }) => money(amountUsd),
    TAX: ({ taxUsd }) => (taxUsd === null ? '' : money(taxUsd)),
  },
  'createdAt',
]

function alertLine({ kind, subject, detail, at }: Listed['alerts'][number]): Content {
  return toned('warn', `${utcTime(at)}  ${kind.replace('_', ' ')}  ${subject}: ${detail}`)
}

function comparisonLine({ comparedAt, objects, differencesTotal }: Comparison): Content {
  const text = `Compared with Stripe on ${utcTime(comparedAt)}: ${count(differencesTotal, 'difference')} in ${count(objects, 'object')}.`
  return differencesTotal === 0 ? text : toned('warn', text)
}

function comparisonLines(comparison: Comparison): Content[] {
  const { processorUsd, recordedUsd, feesUsd, differences } = comparison
  return [
    comparisonLine(comparison),
    `Stripe ${money(processorUsd)}, Berth ${money(recordedUsd)}, fees ${money(feesUsd)}.`,
    ...(differences.length === 0 ? [] : [tableOf(differences, differenceColumns)]),
  ]
}

const differenceColumns: Columns<Comparison['differences'][number]> = [
  'subject:OBJECT',
  'kind',
  {
    STRIPE: ({ processorUsd }) => (processorUsd === null ? '' : money(processorUsd)),
    BERTH: ({ recordedUsd }) => (recordedUsd === null ? 'not known' : money(recordedUsd)),
  },
]

function paymentList({ payments }: Listed): Content[] {
  return payments.length === 0 ? ['There are no payments yet.'] : [tableOf(payments, columns)]
}
