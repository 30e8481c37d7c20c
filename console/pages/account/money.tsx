/**
 * Dialogs in which the operator moves money. A sentence shows the resulting ledger entry first. Amounts stay exact
 * decimals from the field to the ledger. The idempotency key is created when the dialog opens, so that pressing twice
 * moves the money once.
 */
import { money } from '../../../src/view/money.ts'
import { positiveUsdText } from '../../../src/contract/shared.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { faultOf, optionalNumber } from '../../form/read.ts'
import { useCallForm, type Form } from '../../form/use-form.ts'
import { SelectField, TextField } from '../../ui/field.tsx'
import { ReasonField } from '../../ui/reason-field.tsx'
import { toast } from '../../ui/toast.tsx'
import { doneSentence, transferSentence, type Transfer } from './transfer.ts'
import type { Account } from './record.tsx'

export type MoneyMove = Transfer['move']

const titles: Readonly<Record<MoneyMove, string>> = {
  credit: 'Add money',
  adjust: 'Adjust balance',
  refund: 'Refund a rental',
  payout: 'Pay out earnings',
}

const actions: Readonly<Record<MoneyMove, string>> = {
  credit: 'Add money',
  adjust: 'Adjust',
  refund: 'Refund',
  payout: 'Record payout',
}

interface AccountMoneyDialogProps {
  readonly account: Account
  readonly move: MoneyMove
  readonly rentalId: number | undefined
  readonly onClose: () => void
}

const operations = {
  credit: 'creditAccount',
  adjust: 'adjustAccount',
  refund: 'refundCharge',
  payout: 'payOutSupplier',
} as const

export function AccountMoneyDialog({ account, move, rentalId, onClose }: AccountMoneyDialogProps) {
  const form = useCallForm<(typeof operations)[MoneyMove], Transfer>(operations[move], {
    input: { params: { id: account.id } },
    refreshes: ['getAccount', 'listAccounts', 'listAudit', 'getCustomerBalance', 'getStatement'],
    initial: { move, amountUsd: '', kind: 'purchase', direction: 'up', rentalId: String(rentalId ?? ''), reason: '' },
    check: ({ amountUsd }) => ({ amountUsd: faultOf(positiveUsdText, amountUsd.trim()) }),
    body: bodyOf,
    onDone: (_, transfer) => {
      toast(doneSentence(account, transfer))
      onClose()
    },
  })
  const { values: transfer } = form
  return (
    <FormDialog title={`${titles[move]}: ${account.name}`} form={form} action={actions[move]} onClose={onClose}>
      <Choices form={form} />
      <TextField label="Amount (USD)" inputMode="decimal" hint={hintOf(account, move)} {...form.text('amountUsd')} />
      <ReasonField {...form.text('reason')} hint="Recorded in the ledger and the audit log." />
      <p aria-live="polite" className="min-h-16 rounded-md bg-sunken px-3 py-2 text-sm">
        {faultOf(positiveUsdText, transfer.amountUsd.trim()) === undefined &&
        (move !== 'refund' || transfer.rentalId !== '')
          ? transferSentence(account, transfer)
          : 'Enter an amount to preview the ledger entry.'}
      </p>
    </FormDialog>
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
          choices={[
            { value: 'purchase', label: 'Payment from the customer' },
            { value: 'credit', label: 'Credit from the operator' },
          ]}
          {...form.text('kind')}
        />
      )
    case 'adjust':
      return (
        <SelectField
          label="Direction"
          choices={[
            { value: 'up', label: 'Increase the balance' },
            { value: 'down', label: 'Reduce the balance' },
          ]}
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
