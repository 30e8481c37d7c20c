/** Suspending and resuming an account, its supplier fee, and its credit line. Each change says why. */
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
    () => (account.suspended ? `${account.name} is let in again.` : `${account.name} is suspended.`),
    onClose,
  )
  return (
    <FormDialog
      title={account.suspended ? `Let ${account.name} in again?` : `Suspend ${account.name}?`}
      form={form}
      action={account.suspended ? 'Resume' : 'Suspend'}
      look={account.suspended ? 'primary' : 'danger'}
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        {account.suspended
          ? 'Its keys work again on every server within a second.'
          : 'Its keys are refused on every server within a second. What it runs goes on and is charged; end that by hand if you want to.'}
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
    ({ platformFeePercentage: fee }) => `${account.name} pays a fee of ${fee} %.`,
    onClose,
  )
  return (
    <FormDialog
      title={account.supplier ? 'Change the supplier fee' : `Make ${account.name} a supplier`}
      form={form}
      action="Save the fee"
      onClose={onClose}
    >
      <TextField
        label="Fee in percent"
        inputMode="decimal"
        hint="What the house keeps of the price of its machines. Rentals that run keep the fee they began with."
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
    ({ creditLineUsd }) => `${account.name} has a credit line of ${money(creditLineUsd)}.`,
    onClose,
  )
  return (
    <FormDialog title={`Credit line of ${account.name}`} form={form} action="Save the credit line" onClose={onClose}>
      <TextField
        label="Credit line (USD)"
        inputMode="decimal"
        hint="Reserved orders may hold this much beyond the balance. Payments and returned holds repay it first. 0 removes the line."
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
