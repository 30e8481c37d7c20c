/** Dialogs that change an account: suspended or not, platform fee and credit line. Each change needs a reason. */
import type { ReactNode } from 'react'
import { money } from '../../../src/view/money.ts'
import { CallDialog } from '../../form/dialog.tsx'
import { optionalNumber } from '../../form/read.ts'
import type { CallFormOptions, Form } from '../../form/use-form.ts'
import { TextField } from '../../ui/field.tsx'
import { ReasonField } from '../../ui/reason-field.tsx'
import type { Account } from './record.tsx'

interface DialogProps {
  readonly account: Account
  readonly onClose: () => void
}

export function StandingDialog({ account, onClose }: DialogProps) {
  const { name, suspended } = account
  return (
    <AccountDialog
      account={account}
      title={suspended ? `Resume ${name}?` : `Suspend ${name}?`}
      action={suspended ? 'Resume' : 'Suspend'}
      look={suspended ? 'primary' : 'danger'}
      initial={{ reason: '' }}
      body={({ reason }) => ({ suspended: !suspended, reason })}
      done={() => (suspended ? `Resumed ${name}.` : `Suspended ${name}.`)}
      onClose={onClose}
    >
      {() => (
        <p className="text-sm text-muted">
          {suspended
            ? 'Its API keys work again within a second.'
            : 'Its API keys are rejected within a second. Its rentals continue and are charged until you terminate them.'}
        </p>
      )}
    </AccountDialog>
  )
}

export function FeeDialog({ account, onClose }: DialogProps) {
  return (
    <AccountDialog
      account={account}
      title={account.supplier ? 'Change platform fee' : `Make ${account.name} a supplier`}
      action="Save fee"
      initial={{ platformFeePercentage: String(account.platformFeePercentage ?? ''), reason: '' }}
      body={({ platformFeePercentage: fee, reason }) => ({
        platformFeePercentage: optionalNumber(fee) ?? Number.NaN,
        reason,
      })}
      done={({ platformFeePercentage: fee }) => `Set the platform fee of ${account.name} to ${fee}%.`}
      onClose={onClose}
    >
      {(form) => (
        <TextField
          label="Platform fee (%)"
          inputMode="decimal"
          hint="Your share of the price of its machines. Current rentals keep their fee."
          {...form.text('platformFeePercentage')}
        />
      )}
    </AccountDialog>
  )
}

export function CreditLineDialog({ account, onClose }: DialogProps) {
  return (
    <AccountDialog
      account={account}
      title={`Credit line of ${account.name}`}
      action="Save credit line"
      initial={{ creditLineUsd: account.creditLineUsd.replace(/\.?0+$/, ''), reason: '' }}
      body={({ creditLineUsd, reason }) => ({ creditLineUsd: creditLineUsd.trim(), reason })}
      done={({ creditLineUsd }) => `Set the credit line of ${account.name} to ${money(creditLineUsd)}.`}
      onClose={onClose}
    >
      {(form) => (
        <TextField
          label="Credit line (USD)"
          inputMode="decimal"
          hint="Reserved orders can use this much beyond the balance. Payments repay it first. Enter 0 for no credit."
          {...form.text('creditLineUsd')}
        />
      )}
    </AccountDialog>
  )
}

interface AccountDialogProps<Values extends { readonly reason: string }>
  extends DialogProps, Pick<CallFormOptions<'changeAccount', Values>, 'initial' | 'body'> {
  readonly title: string
  readonly action: string
  readonly look?: 'primary' | 'danger'
  readonly wide?: boolean
  readonly disabledReason?: 'unchanged'
  readonly done: (values: Values) => string
  readonly children: (form: Form<Values>) => ReactNode
}

export function AccountDialog<Values extends { readonly reason: string }>(props: AccountDialogProps<Values>) {
  const { account, done, children, ...rest } = props
  return (
    <CallDialog
      operation="changeAccount"
      input={{ params: { id: account.id } }}
      refreshes={['getAccount', 'listAccounts', 'listAudit']}
      done={(_, values) => done(values)}
      {...rest}
    >
      {(form) => (
        <>
          {children(form)}
          <ReasonField {...(form as unknown as Form<{ reason: string }>).text('reason')} />
        </>
      )}
    </CallDialog>
  )
}
