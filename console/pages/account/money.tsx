/**
 * Money that the operator moves. Before it is sent, the dialog says in a sentence what will stand in the books; amounts
 * are exact decimals from the field to the ledger. The key of the request is made when the dialog opens, so pressing
 * twice moves the money once.
 */
import { money } from '../../../src/view/money.ts'
import { positiveUsdText } from '../../../src/contract/shared.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { faultOf, optionalNumber } from '../../form/read.ts'
import { useCallForm, type Form } from '../../form/use-form.ts'
import { SelectField, TextField } from '../../ui/field.tsx'
import { ReasonField } from '../../ui/reason-field.tsx'
import { toast } from '../../ui/toast.tsx'
import { booksSentence, doneSentence, type MoneyWish } from './books.ts'
import type { Account } from './record.tsx'

export type MoneyMove = MoneyWish['move']

const titles: Readonly<Record<MoneyMove, string>> = {
  credit: 'Add money',
  adjust: 'Adjust the balance',
  refund: 'Refund a rental',
  payout: 'Pay out earnings',
}

const actions: Readonly<Record<MoneyMove, string>> = {
  credit: 'Add the money',
  adjust: 'Adjust',
  refund: 'Refund',
  payout: 'Record the payout',
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
  const form = useCallForm<(typeof operations)[MoneyMove], MoneyWish>(operations[move], {
    input: { params: { id: account.id } },
    refreshes: ['getAccount', 'listAccounts', 'listAudit', 'getCustomerBalance', 'getStatement'],
    initial: { move, amountUsd: '', kind: 'purchase', direction: 'up', rentalId: String(rentalId ?? ''), reason: '' },
    check: ({ amountUsd }) => ({ amountUsd: faultOf(positiveUsdText, amountUsd.trim()) }),
    body: bodyOf,
    onDone: (_, wish) => {
      toast(doneSentence(account, wish))
      onClose()
    },
  })
  const { values: wish } = form
  return (
    <FormDialog title={`${titles[move]}: ${account.name}`} form={form} action={actions[move]} onClose={onClose}>
      <Choices form={form} />
      <TextField label="Amount in USD" inputMode="decimal" hint={hintOf(account, move)} {...form.text('amountUsd')} />
      <ReasonField {...form.text('reason')} hint="Recorded in the ledger and the audit log." />
      <p aria-live="polite" className="min-h-16 rounded-md bg-sunken px-3 py-2 text-sm">
        {faultOf(positiveUsdText, wish.amountUsd.trim()) === undefined && (move !== 'refund' || wish.rentalId !== '')
          ? booksSentence(account, wish)
          : 'What will stand in the books is said here.'}
      </p>
    </FormDialog>
  )
}

function bodyOf({ move, amountUsd: typed, kind, direction, rentalId, reason }: MoneyWish) {
  const amountUsd = typed.trim()
  if (move === 'credit') return { amountUsd, kind, reason }
  if (move === 'refund') return { amountUsd, rentalId: optionalNumber(rentalId), reason }
  return { amountUsd: move === 'adjust' && direction === 'down' ? `-${amountUsd}` : amountUsd, reason }
}

/** What else is to be said of a move. */
function Choices({ form }: { form: Form<MoneyWish> }) {
  switch (form.values.move) {
    case 'credit':
      return (
        <SelectField
          label="Where it comes from"
          choices={[
            { value: 'purchase', label: 'A purchase: money that came in' },
            { value: 'credit', label: 'A gift of the house' },
          ]}
          {...form.text('kind')}
        />
      )
    case 'adjust':
      return (
        <SelectField
          label="Direction"
          choices={[
            { value: 'up', label: 'Up: the account gets it' },
            { value: 'down', label: 'Down: the account loses it' },
          ]}
          {...form.text('direction')}
        />
      )
    case 'refund':
      return <TextField label="Number of the rental" inputMode="numeric" {...form.text('rentalId')} />
    case 'payout':
      return null
  }
}

function hintOf(account: Account, move: MoneyMove): string {
  if (move === 'payout') return `Unpaid earnings: ${money(account.earningsUsd)}`
  if (move === 'refund') return 'At most what the rental was charged and has not got back.'
  return `Available: ${money(account.availableUsd)}`
}
