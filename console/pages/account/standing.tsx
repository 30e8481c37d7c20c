/** Dialogs that change an account: its status, platform fee, credit line and quota. Each needs a reason. */
import type { ReactNode } from 'react'
import { defaultQuota, type Quota } from '../../../src/base/limits.ts'
import { quotaNames } from '../../../src/contract/quota-text.ts'
import { quotaLabel } from '../../../src/view/account.ts'
import { money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'
import type { FieldEntry } from '../../form/entry.ts'
import type { FieldFormOptions } from '../../form/field-form.ts'
import type { FieldValues } from '../../form/field.ts'
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
      fields={[]}
      body={(body) => ({ ...body, suspended: !suspended })}
      done={() => (suspended ? `Resumed ${name}.` : `Suspended ${name}.`)}
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        {suspended
          ? 'Its API keys work again within a second.'
          : 'Its API keys are rejected within a second. Its rentals continue and are charged until you terminate them.'}
      </p>
    </AccountDialog>
  )
}

export function FeeDialog({ account, onClose }: DialogProps) {
  const { platformFeePercentage: fee } = account
  return (
    <AccountDialog
      account={account}
      title={account.supplier ? 'Change platform fee' : `Make ${account.name} a supplier`}
      action="Save fee"
      initial={{ platformFeePercentage: String(fee ?? '') }}
      fields={['platformFeePercentage']}
      check={(values) => ({ platformFeePercentage: values.platformFeePercentage === '' ? 'Required' : undefined })}
      done={(values) => `Set the platform fee of ${account.name} to ${values.platformFeePercentage}%.`}
      onClose={onClose}
    />
  )
}

export function CreditLineDialog({ account, onClose }: DialogProps) {
  return (
    <AccountDialog
      account={account}
      title={`Credit line of ${account.name}`}
      action="Save credit line"
      initial={{ creditLineUsd: account.creditLineUsd.replace(/\.?0+$/, '') }}
      fields={['creditLineUsd']}
      done={({ creditLineUsd }) => `Set the credit line of ${account.name} to ${money(creditLineUsd)}.`}
      onClose={onClose}
    />
  )
}

/** Only changed values are sent, so that the others follow a raised default. */
export function QuotaDialog({ account, onClose }: DialogProps) {
  const fieldOf = (name: keyof Quota): FieldEntry<'changeAccount'> => [
    `quota.${name}`,
    { label: quotaLabel(name), hint: `Default: ${number(defaultQuota[name])}` },
  ]
  return (
    <AccountDialog
      account={account}
      title={`Quota of ${account.name}`}
      action="Save quota"
      wide
      before={{ quota: { ...defaultQuota, ...account.quota } }}
      fields={quotaNames.map(fieldOf)}
      done={() => `Changed the quota of ${account.name}.`}
      onClose={onClose}
    />
  )
}

interface AccountDialogProps
  extends DialogProps, Pick<FieldFormOptions<'changeAccount'>, 'initial' | 'before' | 'check' | 'body'> {
  readonly title: string
  readonly action: string
  readonly look?: 'primary' | 'danger'
  readonly wide?: boolean
  readonly fields: ReadonlyArray<FieldEntry<'changeAccount'>>
  readonly done: (values: FieldValues<'changeAccount'>) => string
  readonly children?: ReactNode
}

function AccountDialog({ account, fields, done, ...dialog }: AccountDialogProps) {
  return (
    <FieldDialog
      operation="changeAccount"
      input={{ params: { id: account.id } }}
      refreshes={['getAccount', 'listAccounts', 'listAudit']}
      fields={[...fields, 'reason']}
      done={(_, values) => done(values)}
      {...dialog}
    />
  )
}
