/** Suspending an account and letting it in again; what the house keeps of a supplier's prices. Both say why. */
import { useState, type FormEvent } from 'react'
import type { CallInput } from '../../src/client/client.ts'
import { useAction } from '../api/query.ts'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../ui/dialog.tsx'
import { ErrorNotice } from '../ui/error-notice.tsx'
import { TextField } from '../ui/field.tsx'
import { ReasonField } from '../ui/reason-field.tsx'
import { toast } from '../ui/toast.tsx'
import { feeOf } from './account-fee.ts'
import { faultOfReason } from './account-quota.tsx'
import type { Account } from './account-record.tsx'

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
