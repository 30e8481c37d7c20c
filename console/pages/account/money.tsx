/**
 * Dialogs in which the operator moves money. A sentence shows the resulting ledger entry first. Amounts stay exact
 * decimals from the field to the ledger. The idempotency key is created when the dialog opens, so that pressing twice
 * moves the money once.
 */
import { money } from '../../../src/view/money.ts'
import { positiveUsd } from '../../../src/contract/shared.ts'
import { CallDialog } from '../../form/dialog.tsx'
import { faultOf, optionalNumber } from '../../form/read.ts'
import type { Form } from '../../form/use-form.ts'
import { choicesIn } from '../../list/filter.tsx'
import { SelectField, TextField } from '../../ui/field.tsx'
import { ReasonField } from '../../ui/reason-field.tsx'
import { doneSentence, transferSentence, type Transfer } from './transfer.ts'
import type { Account } from './record.tsx'

export type MoneyMove = Transfer['move']

const moves = {
  credit: { operation: 'creditAccount', title: 'Add money', action: 'Add money' },
  adjust: { operation: 'adjustAccount', title: 'Adjust balance', action: 'Adjust' },
  refund: { operation: 'refundCharge', title: 'Refund a rental', action: 'Refund' },
  payout: { operation: 'payOutSupplier', title: 'Pay out earnings', action: 'Record payout' },
} as const

interface AccountMoneyDialogProps {
  readonly account: Account
  readonly move: MoneyMove
  readonly rentalId?: number
  readonly onClose: () => void
}

export function AccountMoneyDialog({ account, move, rentalId, onClose }: AccountMoneyDialogProps) {
  const { operation, title, action } = moves[move]
  return (
    <CallDialog<(typeof moves)[MoneyMove]['operation'], Transfer>
      operation={operation}
      input={{ params: { id: account.id } }}
      refreshes={['getAccount', 'listAccounts', 'listAudit', 'getCustomerBalance', 'getStatement']}
      title={`${title}: ${account.name}`}
      action={action}
      initial={{ move, amountUsd: '', kind: 'purchase', direction: 'up', rentalId: String(rentalId ?? ''), reason: '' }}
      check={({ amountUsd }) => ({ amountUsd: faultOf(positiveUsd, amountUsd.trim()) })}
      body={bodyOf}
      done={(_, transfer) => doneSentence(account, transfer)}
      onClose={onClose}
    >
      {(form) => (
        <>
          <Choices form={form} />
          <TextField
            label="Amount (USD)"
            inputMode="decimal"
            hint={hintOf(account, move)}
            {...form.text('amountUsd')}
          />
          <ReasonField {...form.text('reason')} hint="Recorded in the ledger and the audit log." />
          <p aria-live="polite" className="min-h-16 rounded-md bg-sunken px-3 py-2 text-sm">
            {faultOf(positiveUsd, form.values.amountUsd.trim()) === undefined &&
            (move !== 'refund' || form.values.rentalId !== '')
              ? transferSentence(account, form.values)
              : 'Enter an amount to preview the ledger entry.'}
          </p>
        </>
      )}
    </CallDialog>
  )
}

function bodyOf({ move, amountUsd: typed, kind, direction, rentalId, reason }: Transfer) {
  const amountUsd = typed.trim()
  if (move === 'credit') return { amountUsd, kind, reason }
  if (move === 'refund') return { amountUsd, rentalId: optionalNumber(rentalId), reason }
  return { amountUsd: move === 'adjust' && direction === 'down' ? `-${amountUsd}` : amountUsd, reason }
}

function Choices({ form }: { form: Form<Transfer> }) {
  switch (form.values.move) {
    case 'credit':
      return (
        <SelectField
          label="Source"
          choices={choicesIn({ purchase: 'Payment from the customer', credit: 'Credit from the operator' })}
          {...form.text('kind')}
        />
      )
    case 'adjust':
      return (
        <SelectField
          label="Direction"
          choices={choicesIn({ up: 'Increase the balance', down: 'Reduce the balance' })}
          {...form.text('direction')}
        />
      )
    case 'refund':
      return <TextField label="Rental number" inputMode="numeric" {...form.text('rentalId')} />
    case 'payout':
      return null
  }
}

function hintOf(account: Account, move: MoneyMove): string {
  if (move === 'payout') return `Unpaid earnings: ${money(account.earningsUsd)}`
  if (move === 'refund') return 'Up to the amount charged and not yet refunded.'
  return `Available: ${money(account.availableUsd)}`
}
