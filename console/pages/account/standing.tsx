/** Suspending and resuming an account, its supplier fee, and its credit line. Each change says why. */
import { useState, type FormEvent } from 'react'
import type { CallInput } from '../../../src/client/client.ts'
import { nonNegativeUsdText } from '../../../src/contract/shared.ts'
import { money } from '../../../src/view/money.ts'
import { useAction } from '../../api/query.ts'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { TextField } from '../../ui/field.tsx'
import { ReasonField } from '../../ui/reason-field.tsx'
import { toast } from '../../ui/toast.tsx'
import { feeOf } from './fee.ts'
import { faultOfReason } from './quota.tsx'
import type { Account } from './record.tsx'

export function StandingDialog({ account, onClose }: { account: Account; onClose: () => void }) {
  const { change, save } = useChange(account, onClose)
  const [reason, setReason] = useState('')
  const [isChecked, setChecked] = useState(false)
  const fault = faultOfReason(reason)
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setChecked(true)
    if (fault !== undefined) return
    const done = account.suspended ? `${account.name} is let in again.` : `${account.name} is suspended.`
    save({ suspended: !account.suspended, reason }, done)
  }
  return (
    <Dialog title={account.suspended ? `Let ${account.name} in again?` : `Suspend ${account.name}?`} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <p className="text-sm text-muted">
          {account.suspended
            ? 'Its keys work again on every server within a second.'
            : 'Its keys are refused on every server within a second. What it runs goes on and is charged; end that by hand if you want to.'}
        </p>
        <ReasonField value={reason} onChange={setReason} error={isChecked ? fault : undefined} />
        {change.error !== null && <ErrorNotice error={change.error} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton look={account.suspended ? 'primary' : 'danger'} busy={change.isPending}>
            {account.suspended ? 'Resume' : 'Suspend'}
          </SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

export function FeeDialog({ account, onClose }: { account: Account; onClose: () => void }) {
  const { change, save } = useChange(account, onClose)
  const [fee, setFee] = useState(account.platformFeePercentage === null ? '' : String(account.platformFeePercentage))
  const [reason, setReason] = useState('')
  const [isChecked, setChecked] = useState(false)
  const value = feeOf(fee)
  const faults = {
    fee: value === undefined ? 'Write a percentage from 0 to 100, such as 12.5.' : undefined,
    reason: faultOfReason(reason),
  }
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setChecked(true)
    if (value === undefined || faults.reason !== undefined) return
    save({ platformFeePercentage: value, reason }, `${account.name} pays a fee of ${fee} %.`)
  }
  return (
    <Dialog title={account.supplier ? 'Change the supplier fee' : `Make ${account.name} a supplier`} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <TextField
          label="Fee in percent"
          inputMode="decimal"
          value={fee}
          onChange={(event) => setFee(event.target.value.trim())}
          error={isChecked ? faults.fee : undefined}
          hint="What the house keeps of the price of its machines. Rentals that run keep the fee they began with."
        />
        <ReasonField value={reason} onChange={setReason} error={isChecked ? faults.reason : undefined} />
        {change.error !== null && <ErrorNotice error={change.error} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton busy={change.isPending}>Save the fee</SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

export function CreditLineDialog({ account, onClose }: { account: Account; onClose: () => void }) {
  const { change, save } = useChange(account, onClose)
  const [line, setLine] = useState(account.creditLineUsd.replace(/\.?0+$/, ''))
  const [reason, setReason] = useState('')
  const [isChecked, setChecked] = useState(false)
  const isAmount = nonNegativeUsdText.safeParse(line).success
  const faults = {
    line: isAmount ? undefined : 'Enter an amount of zero or more, such as 5000.',
    reason: faultOfReason(reason),
  }
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setChecked(true)
    if (!isAmount || faults.reason !== undefined) return
    save({ creditLineUsd: line, reason }, `${account.name} has a credit line of ${money(line)}.`)
  }
  return (
    <Dialog title={`Credit line of ${account.name}`} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <TextField
          label="Credit line (USD)"
          inputMode="decimal"
          value={line}
          onChange={(event) => setLine(event.target.value.trim())}
          error={isChecked ? faults.line : undefined}
          hint="Reserved orders may hold this much beyond the balance. Payments and returned holds repay it first. 0 removes the line."
        />
        <ReasonField value={reason} onChange={setReason} error={isChecked ? faults.reason : undefined} />
        {change.error !== null && <ErrorNotice error={change.error} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton busy={change.isPending}>Save the credit line</SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

function useChange(account: Account, onClose: () => void) {
  const change = useAction('changeAccount', ['getAccount', 'listAccounts', 'listAudit'])
  const save = (body: CallInput<'changeAccount'>['body'], done: string): void =>
    change.mutate(
      { params: { id: account.id }, body },
      {
        onSuccess: () => {
          toast(done)
          onClose()
        },
      },
    )
  return { change, save }
}
