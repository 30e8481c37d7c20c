/** Suspends or resumes an account, and changes its platform fee and credit line. Each change needs a reason. */
import { money } from '../../../src/view/money.ts'
import type { BodyInputOf } from '../../../src/contract/endpoint.ts'
import type { Api } from '../../../src/contract/api.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { optionalNumber } from '../../form/read.ts'
import { useCallForm, type Form, type Loose } from '../../form/use-form.ts'
import { TextField } from '../../ui/field.tsx'
import { ReasonField } from '../../ui/reason-field.tsx'
import { toast } from '../../ui/toast.tsx'
import type { Account } from './record.tsx'

interface DialogProps {
  readonly account: Account
  readonly onClose: () => void
}

export function StandingDialog({ account, onClose }: DialogProps) {
  const form = useAccountForm(
    account,
    { reason: '' },
    ({ reason }) => ({ suspended: !account.suspended, reason }),
    () => (account.suspended ? `Resumed ${account.name}.` : `Suspended ${account.name}.`),
    onClose,
  )
  return (
    <FormDialog
      title={account.suspended ? `Resume ${account.name}?` : `Suspend ${account.name}?`}
      form={form}
      action={account.suspended ? 'Resume' : 'Suspend'}
      look={account.suspended ? 'primary' : 'danger'}
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        {account.suspended
          ? 'Its API keys work again within a second.'
          : 'Its API keys are rejected within a second. Its rentals continue and are charged until you terminate them.'}
      </p>
      <ReasonField {...form.text('reason')} />
    </FormDialog>
  )
}

export function FeeDialog({ account, onClose }: DialogProps) {
  const form = useAccountForm(
    account,
    { platformFeePercentage: String(account.platformFeePercentage ?? ''), reason: '' },
    ({ platformFeePercentage: fee, reason }) => ({ platformFeePercentage: optionalNumber(fee) ?? Number.NaN, reason }),
    ({ platformFeePercentage: fee }) => `Set the platform fee of ${account.name} to ${fee}%.`,
    onClose,
  )
  return (
    <FormDialog
      title={account.supplier ? 'Change platform fee' : `Make ${account.name} a supplier`}
      form={form}
      action="Save fee"
      onClose={onClose}
    >
      <TextField
        label="Platform fee (%)"
        inputMode="decimal"
        hint="Your share of the price of its machines. Current rentals keep their fee."
        {...form.text('platformFeePercentage')}
      />
      <ReasonField {...form.text('reason')} />
    </FormDialog>
  )
}

export function CreditLineDialog({ account, onClose }: DialogProps) {
  const form = useAccountForm(
    account,
    { creditLineUsd: account.creditLineUsd.replace(/\.?0+$/, ''), reason: '' },
    ({ creditLineUsd, reason }) => ({ creditLineUsd: creditLineUsd.trim(), reason }),
    ({ creditLineUsd }) => `Set the credit line of ${account.name} to ${money(creditLineUsd)}.`,
    onClose,
  )
  return (
    <FormDialog title={`Credit line of ${account.name}`} form={form} action="Save credit line" onClose={onClose}>
      <TextField
        label="Credit line (USD)"
        inputMode="decimal"
        hint="Reserved orders can use this much beyond the balance. Payments repay it first. Enter 0 for no credit."
        {...form.text('creditLineUsd')}
      />
      <ReasonField {...form.text('reason')} />
    </FormDialog>
  )
}

export function useAccountForm<Values extends object>(
  account: Account,
  initial: Values,
  body: (values: Values) => Loose<BodyInputOf<Api['changeAccount']>>,
  done: (values: Values) => string,
  onClose: () => void,
): Form<Values> {
  return useCallForm('changeAccount', {
    input: { params: { id: account.id } },
    refreshes: ['getAccount', 'listAccounts', 'listAudit'],
    initial,
    body,
    onDone: (_, values) => {
      toast(done(values))
      onClose()
    },
  })
}
