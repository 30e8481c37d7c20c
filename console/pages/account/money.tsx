/**
 * Dialogs in which the operator moves money. A sentence shows the resulting ledger entry first. Amounts stay exact
 * decimals from the field to the ledger. The idempotency key is created when the dialog opens, so that pressing twice
 * moves the money once.
 */
import { useState } from 'react'
import { money } from '../../../src/view/money.ts'
import { positiveUsd } from '../../../src/contract/shared.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'
import type { FieldValues } from '../../form/field.ts'
import { faultOf } from '../../form/read.ts'
import { choicesIn } from '../../list/filter.tsx'
import { SelectField } from '../../ui/field.tsx'
import { doneSentence, transferSentence, type Transfer } from './transfer.ts'
import type { Account } from './record.tsx'

export type MoneyMove = Transfer['move']

const moves = {
  credit: { operation: 'creditAccount', title: 'Add money', action: 'Add money' },
  adjust: { operation: 'adjustAccount', title: 'Adjust balance', action: 'Adjust' },
  refund: { operation: 'refundCharge', title: 'Refund a rental', action: 'Refund' },
  payout: { operation: 'payOutSupplier', title: 'Pay out earnings', action: 'Record payout' },
} as const
type MoneyOperation = (typeof moves)[MoneyMove]['operation']
type Values = FieldValues<MoneyOperation>

const sources = choicesIn({ purchase: 'Payment from the customer', credit: 'Credit from the operator' })

interface AccountMoneyDialogProps {
  readonly account: Account
  readonly move: MoneyMove
  readonly rentalId?: number
  readonly onClose: () => void
}

export function AccountMoneyDialog({ account, move, rentalId, onClose }: AccountMoneyDialogProps) {
  const { operation, title, action } = moves[move]
  const [direction, setDirection] = useState<Transfer['direction']>('up')
  const transferOf = (values: Values): Transfer => ({
    move,
    direction,
    amountUsd: values.amountUsd,
    kind: values.kind as Transfer['kind'],
    rentalId: values.rentalId,
  })
  const sentenceOf = (values: Values): string =>
    faultOf(positiveUsd, values.amountUsd.trim()) === undefined && (move !== 'refund' || values.rentalId !== '')
      ? transferSentence(account, transferOf(values))
      : 'Enter an amount to preview the ledger entry.'
  const directionField = (
    <SelectField
      label="Direction"
      choices={choicesIn({ up: 'Increase the balance', down: 'Reduce the balance' })}
      value={direction}
      onChange={(event) => setDirection(event.target.value as Transfer['direction'])}
    />
  )
  return (
    <FieldDialog<MoneyOperation>
      operation={operation}
      input={{ params: { id: account.id } }}
      refreshes={['getAccount', 'listAccounts', 'listAudit', 'getCustomerBalance', 'getStatement']}
      title={`${title}: ${account.name}`}
      action={action}
      initial={{ rentalId: String(rentalId ?? '') }}
      fields={(values) => [
        move === 'credit' && ['kind', { choices: sources }],
        move === 'adjust' && { show: directionField },
        move === 'refund' && 'rentalId',
        ['amountUsd', { hint: hintOf(account, move) }],
        'reason',
        preview(sentenceOf(values)),
      ]}
      check={({ amountUsd }) => ({ amountUsd: faultOf(positiveUsd, amountUsd.trim()) })}
      body={(body) => (direction === 'down' ? { ...body, amountUsd: `-${body.amountUsd}` } : body)}
      done={(_, values) => doneSentence(account, transferOf(values))}
      onClose={onClose}
    />
  )
}

function preview(text: string) {
  return {
    show: (
      <p aria-live="polite" className="min-h-16 rounded-md bg-sunken px-3 py-2 text-sm">
        {text}
      </p>
    ),
  }
}

function hintOf(account: Account, move: MoneyMove): string {
  if (move === 'payout') return `Unpaid earnings: ${money(account.earningsUsd)}`
  if (move === 'refund') return 'Up to the amount charged and not yet refunded.'
  return `Available: ${money(account.availableUsd)}`
}
